"""Value notification."""
