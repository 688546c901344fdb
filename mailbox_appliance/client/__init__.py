"""How a program of this user reaches an appliance. No commands, no console: `cli` and `tray` stand on this.

instances        the appliances that this user knows, and which one a command means
local            the appliance of a data directory: whether it runs, and where it listens
http             one HTTP request and its response
address          the address of an appliance, parsed
tls              HTTPS, pinned or verified
tokens           the tokens of sessions, in the keychain or a private file
errors           failures and their exit codes
"""
