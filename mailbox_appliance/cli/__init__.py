"""The command line: an HTTP client of a running appliance.

It imports neither the store nor the web framework, and nothing that `--help` does not need. What is above it (serve,
commands on files, demo) is passed in by `__main__` as names of functions.

main             runs one command line; turns every failure into an exit code
groups           command groups, global options, shell completion
command_table    commands that are one REST call each; pages and progress
context          the context of a command: options, the appliance, passphrases
inputs           what a command reads: JSON, files, times, lists of messages, members
message_options  a message from options
output           JSON, tables and texts; what a delivery status means
files            downloads, saved under safe names
terminal         streams, prompts, progress bars
backup_ids       naming and describing a backup
oauth_sign_in    Google or Microsoft sign-in from a terminal
loopback         the listener to which a browser returns from it
man_page         the manual page, shared help texts
commands         (folder) the commands
"""
