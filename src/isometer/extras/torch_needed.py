"""Imported first by the rooms that are written in torch, so that a missing torch is told in a sentence."""

from isometer.extras import need

need("torch", "this part of isometer")
