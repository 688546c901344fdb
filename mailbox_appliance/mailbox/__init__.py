"""Changes that clients request at a mail server: flags, moves, drafts. Also fetches attachments and missing bodies.

The server is changed first, then the store's mirror of the mailbox. `sync` fetches mail and `sending` sends it.
`operations` checks permissions and forms the answers.

    actions       runs bulk actions: with folders, or with labels if the server has them
    bulk          the common parts of bulk actions: plan, match on the server, role folders, permanent deletion
    drafts        drafts at the server: created, replaced, removed
    attachments   attachments, raw messages and missing bodies: from the cache, or fetched once
    after_send    after a send: removes the draft, flags the parent; keeps a canceled message as a draft
    connections   one IMAP connection for each mailbox, lent to one request at a time
    locks         a lock for each key
"""
