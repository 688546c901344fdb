"""How mailboxes are logged in to whose provider gives tokens (OAuth 2.0), and the asking for that access."""
