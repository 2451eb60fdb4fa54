"""Matching: points in regions, filters around points."""
