"""An existing PostgreSQL: attached, with one notification per transaction, and keys that see the rows of one tenant."""
