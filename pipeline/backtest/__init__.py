"""Backtests: how often subscriptions would have been notified, by the server's own engine over the archive, on Spark."""
