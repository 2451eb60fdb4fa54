"""Index structures over codes; they know keys, not subscriptions."""
