"""Experiments: choices trained side by side with several seeds."""
