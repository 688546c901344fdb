"""The store's formats, one file each with its own SQL; none imports `tables.py`, so that old formats stay as they were."""
