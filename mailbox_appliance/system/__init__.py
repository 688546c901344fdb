"""Functions of the operating system: they hide differences between Linux, macOS and Windows, and fill gaps in Python.

No store, no mail, no network. A module here may use other base modules, such as `model` and `errors`.

ca_certificates   trusted CAs for outgoing connections
crashes           the trace that a native crash leaves, and the last crash
files             file locks, syncing, renaming, free space, memory, asking a process to end
keyring           the keychain, used in a child process with a deadline
ownership         owners and modes of the files in a data directory
processes         child processes and their environment
spool             a temporary file that is encrypted with a key in memory
stdio             standard streams that are closed or lead to a full disk
"""
