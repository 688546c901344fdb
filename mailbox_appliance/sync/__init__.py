"""Brings mail in: what to do (plan), doing it (folder, backlog), in which order (follower), when (mailbox, pool)."""
