"""Attempts each accepted delivery operation, records every step before taking it, and never sends a message twice.

`operations` prepares and accepts a message; the journal of deliveries is in `store.deliveries`; SMTP and Graph
themselves are in `remote`. `mailbox.after_send` changes saved drafts and flags after a send.

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
