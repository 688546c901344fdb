"""The command line `mailbox-appliance`: an HTTP client of a running appliance.

It imports neither the store nor the web framework, and nothing that `--help` does not need. Some commands (`serve`,
`demo`, commands on the files of a data directory) need other packages of the appliance. `__main__` passes in the names
of the functions that carry them out.

main             run one command line; turn every failure into an exit code
groups           command groups, global options, shell completion
command_table    commands that are one REST call each; pages and progress
context          the context of a command: options, the appliance, passphrases
inputs           the input of a command: JSON, files, times, lists of messages, members
output           JSON, tables and texts; exit codes and hints for delivery statuses
files            downloads, saved under safe names
terminal         streams, prompts, progress bars
oauth_sign_in    Google or Microsoft sign-in from a terminal
loopback         the listener to which a browser returns after that sign-in
help_examples    the example in the help of each command
commands         (folder) the commands
"""
