"""Commands that work on the files of a data directory while no appliance is running. They return the same JSON as the
API.

store            operations of the API on an appliance without listeners; status, check, compact, rekey, upgrade
restore          restore a backup over a store, or into an empty directory
keys             the ways to unlock the store's key: keychain, key file, passphrase
"""
