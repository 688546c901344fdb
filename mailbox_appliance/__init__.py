"""Safe access to mail for scripts, apps and assistants, from one encrypted file (docs/architecture.md: the map).

appliance     the one list in which all parts are made, started and stopped
clock         time, timestamps, retry delays
concurrency   how many requests may wait for others, or compute, at once
errors        every error: its code, its family and its text
events        what parts tell each other after a commit
logs          log files and their lines
metrics       counters for `/metrics`
permissions   who reaches a mailbox, and what a role or a key may do
settings      the table of settings, their values in force, the public URL
version       the release
"""
