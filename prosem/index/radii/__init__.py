"""Indexes of value notification: radii, last notified values, labels."""
