"""Passwords, tokens and the license: functions on values that use neither the store nor the network.

`licence`   the terms of a license token, whether it is valid, when to confirm it again
passwords   hashing with Argon2id, and hashes of release 0.10 (scrypt)
tokens      bearer tokens with a checksum, and opaque IDs
"""
