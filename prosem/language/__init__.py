"""SQL text to a query resolved against tables; row predicates of keys."""
