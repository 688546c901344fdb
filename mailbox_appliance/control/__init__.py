"""How a program of this user reaches an appliance: which one runs here, those that were logged in to, their tokens, and
one HTTP request. For the command line and the tray, which are clients like any other; no words for a person, no rows.
"""
