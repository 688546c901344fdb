"""The door for HTTP: routes, the listener, and how values and errors are written out. No rule lives here."""
