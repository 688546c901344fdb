"""Finding the servers of a mailbox from its address."""
