"""The stresses of `scripts/prove-threads`: native libraries that threads share do not crash."""
