"""Looking after a store, open or closed.

check     faults of an open or closed store, found without changing it
cleanup   deleting what has expired, merging the search index, in the background
rewrite   compacting a closed store, or giving it a new master key
"""
