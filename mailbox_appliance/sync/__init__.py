"""Keep a copy of each mailbox in the store (the encrypted database), equal to the mailbox on its mail server.

Changes that a user requests are written to the server by the package `mailbox`; messages are sent by `sending`. The
IMAP protocol itself is in `remote.imap`.

    supervisor     starts and stops the sync of each mailbox
    scheduler      a few threads that all mailboxes share; each works for about a second, then lets another one work
    mailbox        one mailbox: connects, follows changes, waits in IDLE, retries after errors
    follower       chooses the most urgent work on one connection, and the folders to follow
    plan           the steps that make the stored folder equal to the server's. Pure
    folder         carries out these steps for one folder, a batch at a time
    backlog        fetches the bodies of messages whose headers are already stored
    context        services that all mailboxes share, and the data of one connection
    parsers        parses batches of messages; HTML and large batches in child processes
    html_readers   analyzes HTML for API requests, in child processes of their own
    parse_child    the child process that parses; it has no access to the store or the network
"""
