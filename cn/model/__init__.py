"""Geometry, messages, frames and the protocol of a network."""
