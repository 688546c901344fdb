"""The demo: mail servers, a sample mailbox and an appliance, which leave nothing behind. Only here: pymap, aiosmtpd.

run              the command: starts the processes, sets the appliance up, waits, cleans up
servers          both mail servers in a process of their own
imap_server      the embedded IMAP server
maildir          the Maildir++ folders that hold the mail
handshake        what the demo and its servers send each other; the cleanup order
smtp_server      the embedded SMTP server
mail             the sample messages, and how they are composed and stored
"""
