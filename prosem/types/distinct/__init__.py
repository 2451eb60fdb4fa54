"""SELECT DISTINCT over a range."""
