"""Change capture: following tables of an existing PostgreSQL through logical replication."""
