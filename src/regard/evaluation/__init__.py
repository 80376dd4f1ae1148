"""How good a model is, with how far the figures can be trusted. Importing this imports no torch."""
