"""Backups of a data directory. `restore/` takes a store out of a backup; `jobs/` decides when a backup is due.

backups     makes, lists and verifies backups; removes daily ones that are no longer due
container   the file format: manifest, sections, encrypted stream, key
files       the folder `backups/`, and the copy of an open database
verify      reads a backup to its end, and checks the database in it
"""
