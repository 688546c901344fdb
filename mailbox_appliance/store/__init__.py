"""The encrypted database: tables, transactions, the key, and the life of the file from opening to backup.

Only this package uses peewee and apsw. It knows no network, no mail protocol and no permissions. Rows do not leave it;
records of `model` do.

store              an open data directory with one part per kind of data, and the stored settings
open_file          the lock of the directory, the format of the file, and whether the key fits
key                the key file, its slots, and its location
database           connections and transactions under peewee and APSW; errors of disk and SQLite
schema             the required tables and triggers; missing triggers are restored
tables             the table definitions for peewee
files              crash-safe writing, free disk space, and the location of the HTTPS certificate
exclusive_job      long work, one job at a time
accounts           mailboxes, sender addresses, OAuth applications and OAuth sign-ins
members            members and their password hashes
credentials        sessions, API keys, single-use tokens, failed sign-ins
audit              the audit log, chained by HMAC
folders            the folders of a mailbox, their roles and sync positions
messages           reading messages; threads
mailbox_writer     writing mirrored messages and the full-text index
moves              messages that were moved, are missing or are deleted; row numbers
search             turns a filter into the numbers of messages
attachment_cache   attachments and raw messages that were fetched on demand
deliveries         writing the journal of sending
delivery_queries   reading the journal of sending
schedule           sending tasks that are due
stats              counts for `/metrics`
backup/            makes, lists and verifies backups
restore/           restores a backup, and merges what happened since it was made
upgrade/           upgrades a store of format 3 or 4
maintenance/       check, compact, rekey, cleanup
formats/           the schema of each format
"""
