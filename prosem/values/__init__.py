"""Values of the core: rows, columns and their codes, errors, access scopes, encoding."""
