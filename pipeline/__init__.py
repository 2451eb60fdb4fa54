"""The data pipeline on Spark, above the core."""
