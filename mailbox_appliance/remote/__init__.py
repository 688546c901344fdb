"""Other people's servers: IMAP, SMTP, HTTPS, DNS. Only here: imapclient, imaplib, smtplib, dnspython, oauthlib.

What goes wrong is a `RemoteFault`; what follows from it is decided by the callers. Nothing here knows the store.

    net/             connections: allowed addresses, TLS, bounded channels, HTTPS, DNS
    imap/            our side of IMAP
    discovery/       finds the servers of a mailbox from its address
    errors           faults, their names and sentences, and how the replies of servers are read
    smtp             submits messages over SMTP, step by step
    graph            drafts of Microsoft Graph: made, filled, sent
    sasl             login with an access token, for IMAP and SMTP
    oauth            OAuth 2.0 requests to a provider, and its answers
    providers        the providers with a sign-in of their own, and their addresses and mail servers
    send_as          the addresses that a mailbox may send as, by its provider
    login_check      tries the logins of a mailbox before it is saved
    licence_issuer   asks the issuer of a licence whether it is valid
"""
