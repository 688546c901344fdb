"""Backups of a data directory. Taking a store out of one is in `restore/`; when a backup is due, in `jobs/`.

backups     making, listing, verifying, removing daily ones that are no longer due
container   the file format: manifest, sections, encrypted stream, key
files       the folder `backups/`, and the copy of an open database
verify      reading a backup to its end, and the database in it
"""
