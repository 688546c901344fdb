"""The IMAP client (RFC 9051, RFC 3501, RFC 7162; X-GM-EXT-1 of Gmail). imapclient does the sign-in; the rest is own
code.

Callers use `client.ImapMailbox`; the other modules are its parts. `sync` decides what to fetch, and when.

    client       one mailbox over one connection; large messages, search by Message-ID, new folders
    connection   from a socket to an authenticated connection
    wire         commands and responses, parsed piece by piece while they arrive
    values       responses to values: folders, UID sets, FETCH, BODYSTRUCTURE, labels. Pure
    folders      lists folders, selects one, and reports its changes since a position
    reading      fetches and searches in the selected folder
    writing      appends, flags, moves and removes messages
"""
