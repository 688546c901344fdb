"""Restoring a backup in place of the store, or into an empty directory.

restore        the order: prepare, complete, undo
unpack         taking a store of today's format out of a backup
kinship        how the present store and the backup are related, by their audit logs
merge          sends, settings and log since the backup
merge_rights   members, keys, sessions and shares since the backup
pending        a marker for a restore that was accepted
swap           replacing several files of a data directory at once
"""
