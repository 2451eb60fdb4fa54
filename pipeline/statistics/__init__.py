"""The nightly statistics job on Spark: what the optimizer learns from log, subscriptions and measurements."""

from __future__ import annotations


class StatisticsError(Exception):
    """The job cannot run, or was given something wrong; the text says what to do."""
