"""Periodic work while the service runs, each job on a thread of its own. No request waits for any of it.

daily_backup       the daily backup, and a warning about low disk space
licence_check      asks the issuer whether the licence is still valid
memory_trim        gives memory back to the system after large work
periodic           the thread that runs a task again and again
sender_addresses   asks providers what their mailboxes may send as
"""
