"""HTML of mail and its style: what a reader sees of it, and what it hides. Only child processes analyze it."""
