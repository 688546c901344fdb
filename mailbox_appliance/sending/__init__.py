"""Sends each accepted message: the journal is on the disk before the server gets it, and no message is sent twice.

A delivery operation is one accepted request to send. The package `operations` prepares and accepts it, and
`store.deliveries` is the journal that records its steps. SMTP and Graph themselves are in `remote`.
`mailbox.after_send` changes saved drafts and flags after a send.

    worker        the threads that send, and the queue they take operations from
    delivery      one attempt: journal first, then the network
    smtp          one attempt over SMTP, and the pool of connections
    graph         one attempt through Microsoft Graph, and its drafts
    verdict       the meaning of a reply or a fault at each phase; pure
    outcome       records how an attempt ended, phase by phase; whether a scheduled message may be sent
    scheduler     the one timer: scheduled messages, and all other work that is due at a time
    sent_copies   files the appliance's copy of each sent message in Sent
    reconcile     searches for the messages of uncertain operations
    context       the services that all of these use
"""
