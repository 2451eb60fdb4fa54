"""PostgreSQL: schema, the writer's session, batches, recovery, replay reads, keys, webhooks."""
