"""The command `isometer`: thin wrappers that parse, call and print.

A command's module is imported when the command is run, and what it computes with inside the command. Commands of other
distributions join through the entry points of the group `isometer.commands`: name of the command → module that adds it
to `app`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
