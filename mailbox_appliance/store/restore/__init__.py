"""Restoring a backup, beside a store that runs or in its place, and what is merged afterwards."""
