"""The servers that tests talk to: real ones (Dovecot, Postfix) and scripted ones. No tests of the product live here."""
