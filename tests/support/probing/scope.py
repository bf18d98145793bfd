"""What a model may do that no probe undoes: told, and counted by itself."""

from __future__ import annotations

from fnmatch import fnmatchcase

OUT_OF_SCOPE = {
    "patches_torch": (
        "the process has other functions in *",
        "a function of torch that a model replaces while it runs: code of the process, not state of the model",
    ),
    "file_written": (
        "*.file has another position",
        "what a model writes to a file: to cut it off again could destroy what others wrote meanwhile",
    ),
}
"""By trait: the differences that belong to it, and the reason."""


def beyond(model: str, changed: list[str]) -> bool:
    """Whether all differences are out of scope for a model with these traits."""
    traits = model.partition(":")[2].split("+")
    patterns = [pattern for trait, (pattern, _) in OUT_OF_SCOPE.items() if trait in traits]
    return all(any(fnmatchcase(what, pattern) for pattern in patterns) for what in changed)
