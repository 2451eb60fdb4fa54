"""Brokers: membership, dispatch to them, and what a broker is fed."""
