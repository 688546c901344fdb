"""Tests of the console in a real browser, against a real appliance with Dovecot as its mail server."""
