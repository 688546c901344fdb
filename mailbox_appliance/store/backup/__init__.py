"""Backups: the encrypted container, making, listing, thinning and verifying them."""
