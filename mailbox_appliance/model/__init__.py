"""Immutable records that several packages use, and how they are decoded. They have no behavior beyond their own fields.

accounts     mailboxes: servers, sign-ins, folder roles, states, OAuth applications
backups      backups, and checks of the store
base         the base of records that leave as JSON: field names, timestamps, counts, pages
content      bytes that may be too many for memory, read piece by piece
decoding     typed values from JSON and MessagePack; the only caller of msgspec's decoders
deliveries   sends: what is accepted, how far it is, how it ended
members      members, sessions, API keys, capabilities, the audit log
messages     messages as they are read, searched, written and acted on
sync         folders and messages as a mail server reports them and as the store keeps them
"""
