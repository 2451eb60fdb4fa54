"""Links between processes over NATS JetStream."""
