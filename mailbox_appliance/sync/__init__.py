"""Mirror mailboxes: keep the copy of each mailbox in the store equal to its mail server.

Changes that a user requests are written to the server by `mailbox`; messages are sent by `sending`. The IMAP protocol
itself is in `remote.imap`.

    supervisor     owns sync: which mailboxes are mirrored, from start to stop
    scheduler      the threads that all mailboxes share in turns; watches connections in IDLE
    mailbox        one mailbox: connects, follows changes, idles, retries after errors
    follower       chooses the most urgent work on one connection, and the folders to follow
    plan           the steps that make a folder's mirror equal to the server. Pure
    folder         carries out the plan for one folder, a batch at a time
    backlog        fetches the bodies of messages whose headers are already stored
    context        shared services, and the session of one connection
    parsers        parses batches of messages; HTML and large batches in child processes
    html_readers   analyzes HTML for requests, in child processes of their own
    parse_child    the child process that parses; it has no store and no network
"""
