"""Immutable records that several packages use, and how they are decoded. They have no behavior beyond their own fields.

accounts     mailboxes: servers, sign-ins, folder roles, states, OAuth applications
backups      records of backups, and of the results of store checks
base         base classes of records that are sent or received as JSON; pages of lists; marked texts
content      sequences of bytes that may be too large for memory, read piece by piece
decoding     typed values from JSON and MessagePack; the only caller of msgspec's decoders
deliveries   records of messages to send: the accepted request, its progress, and its result
members      members, sessions, API keys, capabilities, the audit log
messages     messages as they are read, searched, written and acted on
sync         folders and messages as a mail server reports them and as the store keeps them
"""
