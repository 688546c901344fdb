"""The command `demo`: mail servers, a sample mailbox and an appliance, all deleted when it ends.

Only this package uses the libraries pymap and aiosmtpd.

run              the command: starts the processes, sets up the appliance, waits, cleans up
servers          both mail servers in a separate process
imap_server      the embedded IMAP server
maildir          the Maildir++ folders that hold the mail
handshake        messages between the demo and its servers; the cleanup order
smtp_server      the embedded SMTP server
mail             the sample messages in `letters`, dated relative to now
"""
