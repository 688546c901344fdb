"""Log-ins at Google and Microsoft: flows, tokens, and what the environment says of them."""
