"""Clients for external servers: IMAP, SMTP, HTTPS, DNS. The only users of imapclient, imaplib, smtplib, dnspython,
oauthlib.

Every failure is a `RemoteFault`; callers decide what follows from it. Nothing here uses the store.

    net/             connections: allowed addresses, TLS, bounded channels, HTTPS, DNS
    imap/            the IMAP client
    discovery/       finds the servers of a mailbox from its address
    errors           faults, their names and sentences, and how server replies are classified
    smtp             submits messages over SMTP, step by step
    graph            drafts of Microsoft Graph: created, filled, sent
    sasl             sign-in with an access token, for IMAP and SMTP
    oauth            OAuth 2.0 requests to a provider, and its responses
    providers        the providers with their own sign-in, their URLs and mail servers
    send_as          the addresses that a mailbox may send as, by its provider
    login_check      tries the sign-ins of a mailbox before it is saved
    licence_issuer   asks the issuer of a license whether it is valid
"""
