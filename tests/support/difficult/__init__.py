"""Models that make it hard to leave them as they were: traits by class, and their combinations."""

from support.difficult.corpus import DifficultModel, corpus, named
from support.difficult.subject import OwnError, Subject

__all__ = ["DifficultModel", "OwnError", "Subject", "corpus", "named"]
