"""Every door gives the same rights: a table written by hand, everybody who may ask, and the doors they ask at."""
