"""The server's composition, settings, lifespan and keys."""
