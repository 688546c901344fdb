"""How a program of this user reaches an appliance: which one runs here, those that were logged in to, their tokens, and
one HTTP request. For the command line and the tray, which are clients like any other, and tell failures in the words
and sort them by the exit codes that are found here; no output, no rows.
"""
