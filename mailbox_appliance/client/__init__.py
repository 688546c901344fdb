"""The connection of a user's programs to an appliance, used by `cli` and `tray`. It has no commands and no interface.

instances        the appliances that this user knows, and which one a command means
local            the appliance of a data directory: whether it runs, and its address
http             one HTTP request and its response
address          the address of an appliance, parsed
tls              HTTPS, pinned or verified
tokens           the tokens of sessions, in the keychain or a private file
errors           failures and their exit codes
"""
