"""Seeing what a model did: maps of attention, and the pictures of them."""
