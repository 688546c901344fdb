"""Our side of IMAP: connection, wire, values, folders, reading and writing (RFC 9051)."""
