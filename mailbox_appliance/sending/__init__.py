"""Takes mail out: attempts each accepted operation, records every step before it, and never sends a message twice.

Preparing and accepting a message is in `operations`; the journal of deliveries is in `store.deliveries`; SMTP and Graph
themselves are in `remote`. Saved drafts and flags are changed after a send by `mailbox.after_send`.

    worker        the threads that send, and the queue they take operations from
    delivery      one attempt: journal first, then the network
    smtp          one attempt over SMTP, and the pool of connections
    graph         one attempt through Microsoft Graph, and its drafts
    verdict       what a reply or a fault means at each phase. Pure
    outcome       records how an attempt ended, phase by phase; whether a scheduled send may go
    scheduler     the one timer: scheduled sends, and all other work that waits for a time
    sent_copies   files our copy of each sent message in Sent
    reconcile     looks for what became of uncertain operations
    context       the services that all of these use
"""
