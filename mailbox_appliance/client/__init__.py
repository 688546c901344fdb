"""How a program of this user reaches an appliance: which runs here, log-ins and their tokens, one HTTP request."""
