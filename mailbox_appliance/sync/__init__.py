"""Brings mail in: what to do (plan), doing it (folder, backlog), in which order (follower), in turns (mailbox, pool)."""
