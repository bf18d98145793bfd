"""Cells of studies: pure functions from a configuration and a seed to a dataset, apart from pictures and verdicts.

A cell's key covers the source that it can reach; keep plots out of here, so that a new picture costs no computation.
"""
