"""Price alerts: value notification, webhooks with a checked signature, and a backtest of the threshold."""
