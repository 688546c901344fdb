"""Passwords, tokens and the licence: functions on values. No store, no network.

licence     what a licence token grants, whether it is valid, when its issuer is asked again
passwords   hashing with Argon2id, and hashes of release 0.10 (scrypt)
tokens      bearer tokens with a checksum, and opaque ids
"""
