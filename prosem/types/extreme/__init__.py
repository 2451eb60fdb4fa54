"""Range MIN and MAX."""
