"""Periodic work while the service runs, each job on a thread of its own. Requests never wait for it.

daily_backup       the daily backup, and a warning about low disk space
licence_check      confirms the license with its issuer
memory_trim        returns memory to the system after large work
periodic           the thread that runs a task repeatedly
sender_addresses   fetches the addresses that mailboxes may send from
"""
