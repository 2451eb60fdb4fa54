"""Parts that several subscription types share."""
