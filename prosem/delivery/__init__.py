"""Delivery: the edge, streams of subscribers, replay."""
