"""Whether backtests notify exactly as a server did: all statements, many subscriptions, a long log."""
