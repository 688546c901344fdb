"""Commands that work on the files of a data directory while no service runs."""
