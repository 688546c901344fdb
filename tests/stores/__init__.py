"""Small real stores of past formats, opened on every run, with their secrets beside them; and what makes them."""
