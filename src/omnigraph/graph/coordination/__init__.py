"""What writers share: leases, intents and the environment of a write."""
