"""Passwords, tokens and the licence: pure functions on values."""
