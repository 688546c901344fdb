"""Connections to other people's servers: each checked before it is opened, and bounded in time and size.

Protocols are elsewhere: `remote.imap`, `remote.smtp`, and HTTPS requests with a meaning in the modules of `remote`.

    connect   which addresses may be connected to, and TLS with names always checked
    channel   bytes to and from a server, bounded in time and size
    https     one request, one answer
    dns       services, mail exchangers, aliases and addresses by name
    calls     calls that a request waits for and can give up
"""
