"""Brings mail in: what to do (plan), doing it (folder), when (worker), for whom (supervisor). No SQL, no protocol."""
