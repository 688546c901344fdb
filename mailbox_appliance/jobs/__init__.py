"""What is done again and again while the service runs: daily backup, licence, sender addresses, memory."""
