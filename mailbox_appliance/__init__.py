"""Safe access to mail for scripts, apps and assistants, from one encrypted file. See docs/architecture.md for the rooms."""
