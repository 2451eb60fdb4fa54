"""What runs the server: supervised tasks, cooperative scheduling, counters, command traces."""
