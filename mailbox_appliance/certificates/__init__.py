"""The certificate of the HTTPS listener: its two files, making one, reading what one says, and the TLS to go with it.

Not here: the listener (`web/`), and the certificates of other people's servers (`remote/tls`).
"""
