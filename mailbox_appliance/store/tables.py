"""Tables of the store as peewee objects, for queries that need not be fast."""

import peewee

MEMBERS = peewee.Table("members")
SESSIONS = peewee.Table("sessions")
INVITATIONS = peewee.Table("invitations")
API_KEYS = peewee.Table("api_keys")
OAUTH_APPS = peewee.Table("oauth_apps")
SETTINGS = peewee.Table("settings")
ATTEMPTS = peewee.Table("attempts")
ACCOUNTS = peewee.Table("accounts")
