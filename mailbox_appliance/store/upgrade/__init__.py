"""Upgrading a store of format 3 or 4 to the current format. `store.formats` has the columns and their conversion.

upgrade     makes a backup and a new file beside the old one, then replaces the old file by one rename
old_store   the old file, attached read-only and checked
dry_run     a preview of the upgrade, which changes nothing
"""
