"""Indexes of select-joins: rows by join key, stabbing sets."""
