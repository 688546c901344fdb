"""Our side of IMAP (RFC 9051, RFC 3501, RFC 7162; X-GM-EXT-1 of Gmail). imapclient does the login, we do the rest.

Callers use `client.ImapMailbox`; the other modules are its parts. What to fetch, and when, is decided in `sync`.

    client       one mailbox over one connection; large messages, finding by Message-ID, making folders
    connection   from a socket to a logged-in connection
    wire         commands and responses, read in pieces as they come
    values       responses to values: folders, UID sets, FETCH, BODYSTRUCTURE, labels. Pure
    folders      lists folders, selects one, and says what changed in it since a position
    reading      fetches and searches in the selected folder
    writing      appends, flags, moves and removes messages
"""
