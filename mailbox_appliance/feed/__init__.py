"""Tells programs what has changed: events for readers that ask or wait, and for webhooks.

- events.py: what a credential sees of the journal of changes, and how it is shown.
- waiting.py: readers that wait for events without occupying a thread.
- webhooks.py: sends events to webhooks.
"""
