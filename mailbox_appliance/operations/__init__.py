"""Everything that a client can request, written once for all interfaces: input, required permissions, action and
result.

The code here does not depend on HTTP, the command line or MCP. The interfaces (`web`, `mcp_server`, `cli`) offer an
operation with one row of a table.

operation        the class Operation; the caller, and the requirements for callers
decoding         request values and bodies to typed values; canonical JSON; cursors of lists
message_input    the input types of messages, the time to send at, rules for texts
prepare          checks, composes and locks a message to be sent, previewed or forwarded
sending          operations that send, forward and preview messages, once for each idempotency key
deliveries       the status of deliveries, resolving uncertain ones; scheduled messages
drafts           drafts in the mailbox's drafts folder
messages         lists and search, messages, threads, labels
contents         bodies page by page, attachments and links to them, raw messages
actions          one action on many messages
folders          the roles of folders, the addresses that a mailbox may send as
accounts         mailboxes: connect, change, share, remove; find servers from an address
oauth            the OAuth applications, and mailboxes connected by a provider's sign-in
sessions         sign in and out, sessions, one's own name and password, limits of failed attempts
enrolment        single-use tokens: first setup, invitations, password resets, console links
members          members for administrators: invite, change, suspend, remove; their sessions
api_keys         API keys and what they may do
audit            the audit log: read and verified; what others did to a member
settings         the configuration, the settings that can change while running, the HTTPS certificate
https            whether HTTPS is on, where, and with which certificate
`licence`        the license of an appliance that an operator sells or hosts, and its limits
oversight/       sending policies; approvals of messages that wait for a person
backups          backups: create, list, verify, download, restore
status           version, health, warnings, the numbers of the charts
store            the store's key, size and progress; its integrity check
"""
