"""Ratios against the obvious alternative, measured in one run: `python -m benchmarks`."""
