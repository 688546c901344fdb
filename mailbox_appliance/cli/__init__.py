"""The door for people and scripts: commands. A client of a running instance over HTTP; it imports neither the store nor
the web framework, and nothing at all that `--help` does not need. What stands above it (serve, set-up on files, demo)
is handed in as names of functions by `__main__`.
"""
