"""Every interface gives the same rights: a table written by hand, every kind of caller, and every interface."""
