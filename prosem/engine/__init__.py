"""The engine: memory, commands, the pipeline that applies and commits them."""
