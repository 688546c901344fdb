"""Tests lie where their subject lies: `mail/threads.py` is tested by `tests/mail/test_threads.py`."""
