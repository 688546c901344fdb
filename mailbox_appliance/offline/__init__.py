"""Commands on the files of a data directory that no process serves. Their output is the API's envelopes.

store            status, check, compact, rekey, upgrade, setup, audit check
backups          create, list and verify backups
restore          restore a backup over a store, or into an empty directory
keys             the slots of the store's key
https            switch HTTPS on or off, and its certificate
"""
