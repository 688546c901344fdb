"""What is done at a mail server on request: flags, moves, drafts, attachments. The server comes first, then the store.

Bringing mail in is `sync`; taking it out is `sending`. Who may ask, and the form of the answer, is `operations`.

    actions       runs bulk actions: by folders, or by labels where the server has these
    bulk          what bulk actions share: plan, match on the server, role folders, permanent deletion
    drafts        drafts at the server: created, replaced, removed
    attachments   attachments, raw messages and missing bodies: from the cache, or fetched once
    after_send    after a send: removes the draft, flags the parent; keeps a canceled send as a draft
    connections   one IMAP connection for each mailbox, lent to one request at a time
    locks         a lock for each key
"""
