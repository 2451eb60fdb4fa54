"""Networks of brokers: one file per network, and the registry."""
