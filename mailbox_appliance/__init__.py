"""A self-hosted email API for scripts, apps and AI agents, on one encrypted store. See docs/architecture.md for how the
parts work together.

appliance     the class Appliance: all parts, created, started and stopped in one place
clock         time, timestamps, retry delays
concurrency   limits on requests that wait for other servers or hash passwords
errors        every error: its code, its family and its text
events        events that parts publish after a commit
log_events    the sentence for each log event
logs          log files and their lines
permissions   access to mailboxes, and what a role or a key allows
settings      the table of settings, their effective values, the public URL
version       the release
"""
