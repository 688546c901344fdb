"""Upgrading a store of format 3 or 4 to today's format. What stands in each column is in `formats/`.

upgrade     a backup, a new file beside the old one, then one rename
old_store   the old file, attached read only and checked
dry_run     what an upgrade would do, without changing anything
"""
