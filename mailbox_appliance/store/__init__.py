"""The store: the encrypted SQLite database of the appliance, its key, its backups and its maintenance.

Only this package uses peewee and apsw. It contains no network access, no mail protocol and no permission checks. It
returns records of the package `model`, never database rows.

store              an open data directory with one part per kind of data, and the stored settings
open_file          the lock of the directory, the format of the file, and whether the key fits
key                the key file, the ways to unlock the key in it, and its location
database           connections and transactions under peewee and APSW; errors of disk and SQLite
schema             the required tables and triggers; missing triggers are restored
tables             the table definitions for peewee
files              crash-safe writing, free disk space, and the location of the HTTPS certificate
exclusive_job      long jobs such as backups, one at a time
accounts           mailboxes, sender addresses, OAuth applications and OAuth sign-ins
members            members and their password hashes
credentials        sessions, API keys, single-use tokens, failed sign-ins
audit              the audit log, protected by a chain of HMACs
folders            the folders of a mailbox, their roles and sync states
messages           reading messages; threads
mailbox_writer     writing mirrored messages and the full-text index
moves              messages that were moved, are missing or are deleted; row numbers
search             finds the row numbers of the messages that match a filter
attachment_cache   attachments and raw messages that were fetched on demand
deliveries         writing the delivery operations
delivery_queries   reading the delivery operations
schedule           delivery tasks that are due
stats              counts for `/metrics`
backup/            makes, lists and verifies backups
restore/           restores a backup, and merges what happened since it was made
upgrade/           upgrades a store of format 3 or 4
maintenance/       check, compact, rekey, cleanup
formats/           the schema of each format
"""
