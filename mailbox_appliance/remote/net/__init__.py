"""Connections to external servers: each address is checked first, and each connection is bounded in time and size.

Protocols are elsewhere: `remote.imap`, `remote.smtp`, and specific HTTPS requests in the modules of `remote`.

    connect   allowed addresses, and TLS with certificate names always checked
    channel   bytes to and from a server, bounded in time and size
    https     one request, one response
    dns       services, mail exchangers, aliases and addresses by name
    calls     calls that a request waits for and can abandon
"""
