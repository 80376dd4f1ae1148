"""What models learn from. Importing this imports no torch; augmentation alone needs it."""
