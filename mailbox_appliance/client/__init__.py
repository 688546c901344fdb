"""The connection of user programs to an appliance, shared by the command line (`cli`) and the tray icon (`tray`).

instances        the appliances that this user knows, and which one a command means
local            the appliance of a data directory: whether it runs, and its address
http             one HTTP request and its response
address          the address of an appliance, parsed
tls              HTTPS, with a pinned certificate or one that the system's CAs verify
tokens           the tokens of sessions, in the keychain or a private file
errors           failures and their exit codes
"""
