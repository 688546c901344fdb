"""Upgrading a store of format 3 or 4 to today's format. `formats/` has the columns and their conversion.

upgrade     makes a backup and a new file beside the old one, then renames it once
old_store   the old file, attached read-only and checked
dry_run     what an upgrade would do, without changing anything
"""
