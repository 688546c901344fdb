"""The commands, grouped by topic. A module is imported only when one of its commands is used.

accounts         accounts, labels
emails           emails, threads, attachments: list, read, change
sending          emails send, preview, forward, deliveries; drafts; scheduled
members          members, sessions, profile, password, console, whoami, status
api_keys         api-keys
session          login, logout, instances, setup, enroll, reset-password
admin            audit, license, oauth-apps, settings; logs
backup           backup
store            store, key
https            https
run              serve, demo, mcp, tray, autostart; completion, man
"""
