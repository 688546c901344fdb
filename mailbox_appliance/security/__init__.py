"""Passwords, tokens and the license: functions on values that use neither the store nor the network.

`licence`   the terms of a license token, whether it is valid, and when to confirm it again
passwords   hashing passwords with Argon2id, and checking hashes that release 0.10 made with scrypt
tokens      bearer tokens with a checksum, and opaque IDs
"""
