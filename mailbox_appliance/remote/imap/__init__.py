"""The IMAP client (RFC 9051, RFC 3501, RFC 7162; X-GM-EXT-1 of Gmail). The library imapclient is used only to sign in.

Callers use `client.ImapMailbox`; the other modules are its parts. The package `sync` decides what to fetch, and when.

    client       one mailbox over one connection; large messages, search by Message-ID, new folders
    connection   signs in on a connected socket
    wire         commands and responses, parsed piece by piece while they arrive
    values       converts responses to Python values: folders, UID sets, FETCH, BODYSTRUCTURE, labels. Pure
    folders      lists folders, selects one, and reports its changes since an earlier state
    reading      fetches and searches in the selected folder
    writing      appends, flags, moves and removes messages
"""
