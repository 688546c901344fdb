"""Clients for external servers: IMAP, SMTP, HTTPS, DNS. Only this package uses the libraries imapclient, imaplib,
smtplib, dnspython and oauthlib.

Every failure is raised as a `RemoteFault`, and callers decide how to react. Nothing in this package uses the store.

    net/             connections: allowed addresses, TLS, limits of time and size, HTTPS, DNS
    imap/            the IMAP client
    discovery/       finds the servers of a mailbox from its address
    errors           RemoteFault, and the rules that find the exact cause in a server's reply
    smtp             submits messages over SMTP, step by step
    graph            drafts of Microsoft Graph: created, filled, sent
    sasl             sign-in with an access token, for IMAP and SMTP
    oauth            OAuth 2.0 requests to a provider, and its responses
    providers        Google and Microsoft: their URLs, scopes and mail servers
    send_as          the addresses that a mailbox may send as, reported by its provider
    login_check      tries the sign-ins of a mailbox before it is saved
    licence_issuer   asks the issuer of a license whether it is valid
"""
