"""Teach a BERT to read plain text, by up to four kinds of question that need no labels."""
