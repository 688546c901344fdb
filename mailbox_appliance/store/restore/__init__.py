"""Restoring a backup in place of the store, or into an empty directory.

restore        the order of steps: prepare, complete, undo
unpack         takes a store of today's format out of a backup
kinship        how the present store and the backup are related, by their audit logs
merge          deliveries, settings and log since the backup
merge_rights   members, keys, sessions and shares since the backup
pending        a marker for a restore that was accepted
swap           replaces several files of a data directory at once
"""
