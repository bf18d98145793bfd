"""Simulators that only claims and studies use."""
