"""Commands on the files of a data directory that no process serves. They return the same envelopes as the API.

store            status, check, compact, rekey, upgrade, setup, audit check
backups          create, list and verify backups
restore          restore a backup over a store, or into an empty directory
keys             the slots of the store's key
https            enable or disable HTTPS, and its certificate
"""
