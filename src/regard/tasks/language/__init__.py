"""Foretell a text, a token at a time, and write on."""
