"""Indexes over several range columns: k-d trees for minima and sums."""
