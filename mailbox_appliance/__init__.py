"""Safe access to mail for scripts, apps and assistants, from one encrypted file (docs/architecture.md: the map)."""
