"""What `scripts/prove-serving` proves: whatever crowds, swaps and signals come, who asked is answered."""
