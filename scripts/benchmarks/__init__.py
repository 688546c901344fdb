"""What `scripts/bench` measures, one topic a file; each stands beside its floor in the same run: machines differ."""
