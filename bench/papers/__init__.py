"""The figures and tables of the papers beside our own: `prosem bench papers`."""
