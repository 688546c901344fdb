"""Brings mail in: keeps the mirror of each mailbox in the store equal to its server.

What is written to a server on request is in `mailbox`; what is sent, in `sending`. IMAP itself is in `remote.imap`.

    supervisor     owns sync: which mailboxes are mirrored, from start to stop
    scheduler      a few threads for all mailboxes, which take turns; watches connections in IDLE
    mailbox        one mailbox: connects, follows, rests; retries after faults
    follower       the most urgent piece of work on one connection; which folders are followed
    plan           what is to be done so that a folder's mirror equals the server. Pure
    folder         carries the plan out for one folder, a batch at a time
    backlog        fetches the bodies of messages that are listed by their headers only
    context        what sync works with: shared services, and the session of one connection
    parsers        parses batches of messages; those with HTML, and large batches, in child processes
    html_readers   reads HTML for requests, in child processes of their own
    parse_child    the child process that parses; no store, no network
"""
