"""Feeds that are polled: what a publisher's page says becomes rows of a table (thesis 6.2.1)."""
