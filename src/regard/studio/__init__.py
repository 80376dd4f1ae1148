"""`regard studio`: a page, served on your own machine, on your own runs, live while they train."""
