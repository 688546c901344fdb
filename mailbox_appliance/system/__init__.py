"""What differs from one operating system to the next: files, locks, owners, child processes, keychain, certificates."""
