"""SELECT with a filter."""
