"""The HTTP and HTTPS server: sockets, framing, bounds and memory, on waitress."""
