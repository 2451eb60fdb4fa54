"""Webhooks: changes that are POSTed to an address, signed, in order, until the receiver has taken them."""
