"""Drivers near me: moving two-dimensional ranges with pinned variables, drawn on a map."""
