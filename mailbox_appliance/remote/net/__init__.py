"""Connections to external servers: each address is checked first, and each connection is limited in time and size.

The protocols on top are elsewhere: `remote.imap`, `remote.smtp`, and modules of `remote` for certain HTTPS requests.

    connect   opens connections to allowed addresses, and TLS contexts; certificate names are always checked
    channel   reads and writes bytes on a connection, with limits of time and size
    https     sends one HTTPS request and reads its response
    dns       looks up services, mail exchangers, aliases and addresses by name
    calls     runs calls to servers so that a waiting request can abandon them
"""
