"""Which device computes, and what this machine has."""
