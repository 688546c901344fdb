"""The operating system: what differs between Linux, macOS and Windows, and what the standard library leaves open.

No store, no mail, no network. A module here may use other modules of the ground, such as `model` and `errors`.

ca_certificates   the authorities that connections to servers trust
crashes           the trace that a native crash leaves, and the last crash
files             file locks, syncing, renaming, free space, memory, asking a process to end
keyring           the keychain, asked in a child process with a deadline
ownership         who owns the files of a data directory, and their modes
processes         child processes and their environment
spool             a temporary file that is encrypted with a key in memory
stdio             standard streams that are closed or lead to a full disk
"""
