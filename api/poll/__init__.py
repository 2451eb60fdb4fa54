"""Feeds that are polled: what a publisher's page says becomes rows of a table ([ProSem thesis] 6.2.1)."""
