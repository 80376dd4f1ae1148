"""The theory of attention as checks that can fail."""
