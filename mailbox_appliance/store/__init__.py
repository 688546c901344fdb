"""The encrypted database: tables, transactions, the key, and the life of the file from opening to backup.

Only here: peewee and apsw. No network, no rules of mail, no permissions. Rows do not leave; records of `model` do.

store              a data directory opened, with one part for each kind of thing in it; the stored settings
open_file          the lock of the directory, the format of the file, whether its key fits
key                the key file, its slots, where it lies
database           connections and transactions under peewee and APSW; errors of disk and SQLite
schema             which tables and triggers there must be; triggers are put back
tables             the tables as peewee knows them
files              crash-safe writing, free disk space, where the certificate of HTTPS lies
exclusive_job      long work, one job at a time
accounts           mailboxes, sender addresses, OAuth applications and log-ins
members            members and the hash of their password
credentials        sessions, API keys, single-use tokens, failed log-ins
audit              the audit log, chained by HMAC
folders            the folders of a mailbox, their roles and positions
messages           reading messages; threads
mailbox_writer     writing mirrored messages, and the full-text index
moves              messages that move, are gone or are deleted; row numbers
search             from a filter to the numbers of messages
attachment_cache   what was fetched on demand
deliveries         the journal of sending: writing it
delivery_queries   the journal of sending: reading it
schedule           what is due in sending
stats              counts for `/metrics`
backup/            making, listing and verifying backups
restore/           restoring a backup, and merging what happened since
upgrade/           from a store of format 3 or 4
maintenance/       check, compact, rekey, cleanup
formats/           the schema of each format
"""
