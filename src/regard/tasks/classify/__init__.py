"""Image classification: a vision transformer from files to a report."""
