"""Subscription types: one package per type, and the registry."""
