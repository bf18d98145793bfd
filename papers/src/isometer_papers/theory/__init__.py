"""Formulas of the papers that only claims and studies call."""
