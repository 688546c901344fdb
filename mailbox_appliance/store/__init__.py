"""The one encrypted file and its key. Only here: peewee and apsw. No network, no mail rules, no permissions."""
