"""Views: definitions, expressions, incremental operators, and the graph in which changes flow through them."""
