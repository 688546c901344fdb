"""Commands that work on the files of a data directory while no appliance is running. They return the same JSON as the
API.

store            status, check, compact, rekey, upgrade, setup, audit check
backups          create, list and verify backups
restore          restore a backup over a store, or into an empty directory
keys             the ways to unlock the store's key: keychain, key file, passphrase
https            enable or disable HTTPS, and its certificate
"""
