"""Data that every installation already has or can draw, so that everything works offline."""
