"""Connections to other people's servers: names, TLS, channels, HTTPS, and what a service may have open at once."""
