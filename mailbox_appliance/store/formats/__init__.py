"""The store's formats, one file each with its own SQL; none imports `tables.py`, so that each stays as it was."""
