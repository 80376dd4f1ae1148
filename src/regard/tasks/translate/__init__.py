"""Translate sentences, line by line, and show which word read which."""
