"""Maintenance of a store: checks, cleanup, compacting and new keys.

check     finds faults of an open or closed store without changing it
cleanup   deletes expired data and merges the search index, in the background
rewrite   compacts a closed store, or gives it a new master key
"""
