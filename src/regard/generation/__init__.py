"""Generation: tokens from a model, one after the other."""
