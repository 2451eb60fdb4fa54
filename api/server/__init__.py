"""The server's composition, lifetime, settings and keys."""
