"""Indexes over one range column: range minima, sums, positions."""
