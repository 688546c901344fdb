"""Restoring a backup in place of the present store, or into an empty directory.

The present store is the one that the data directory has before the restore. What was sent or revoked in it since the
backup is merged into the restored one.

restore        the order of steps: prepare, complete, undo
unpack         takes a store out of a backup, in the current format
merge          finds how the present store and the backup are related, and copies deliveries, settings and audit log
               rows since the backup from the present store
merge_rights   the same for members, keys, sessions and shares
pending        a marker file for a restore that was accepted, by which a failed restore is recorded
swap           replaces several files of a data directory at once
"""
