"""Backups of a data directory: creating, listing, verifying and removing them.

backups     makes, lists and verifies backups; removes old daily ones
container   the file format: manifest, sections, encrypted stream, key
files       the folder `backups/`, and the copy of an open database
verify      reads a backup to its end, and checks the database in it

The package `store.restore` takes a store out of a backup; `jobs` decides when a backup is due.
"""
