"""Inspection: what is true of a trained model and its attention."""
