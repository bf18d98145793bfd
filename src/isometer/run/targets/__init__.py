"""Cells of the commands that `isometer sweep` knows; one module each, so that each has a code version of its own."""
