"""Helpers for every stage: numbers, arrays of any library, disk, progress, optional packages, warnings."""
