"""Bounds of caches by message: many short ones, few long ones, so that a cache is bounded in bytes as well."""

SHORT_MESSAGE = 4 << 10  # bytes of payload and contents
LONG_MESSAGES = 8
