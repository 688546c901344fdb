"""Find the servers of a mailbox from its address. This package contacts no mail server; `remote.login_check` does that.

discovery    asks several sources (DNS, web servers, a directory, usual names) at once, and ranks their results
autoconfig   reads autoconfig documents, holds the table of known providers, ranks candidates
"""
