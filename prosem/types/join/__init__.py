"""Select-joins of two to six tables."""
