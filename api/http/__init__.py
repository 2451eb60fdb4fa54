"""HTTP and WebSocket: routes, bodies, problems, authentication."""
