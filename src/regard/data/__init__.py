"""What models learn from; nothing here imports torch."""
