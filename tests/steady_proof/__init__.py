"""The soak of `scripts/prove-steady`: under a mixed load the service neither fails nor grows."""
