"""Range COUNT, SUM and AVG."""
