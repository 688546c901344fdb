"""The console, walked in a real browser against the real appliance with Dovecot behind it."""
