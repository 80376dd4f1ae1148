"""Say what images show: an encoder that sees, a decoder that writes, and where it looked."""
