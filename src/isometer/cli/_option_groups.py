"""Commands that take a group of options as one value."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints

import typer

GIVEN = "given"
"""The field of a group that holds the names of the options that the user typed."""


def takes_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameters that are dataclasses stand for the options of their fields.

    A field without `Annotated` is no option; one called `given` gets the names of the options that were typed.
    """
    # eval_str: postponed annotations are text, and Typer needs the objects.
    own = list(inspect.signature(command, eval_str=True).parameters.values())
    groups = {p.name: p.annotation for p in own if isinstance(p.annotation, type) and is_dataclass(p.annotation)}
    shared = {name: _options(group) for name, group in groups.items()}
    # Keyword-only parameters may stand in any order, with or without default.
    rest = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own if p.name not in groups]
    arguments = [p for p in rest if p.default is inspect.Parameter.empty]
    parameters = [*arguments, *(p for options in shared.values() for p in options)]
    parameters += [p for p in rest if p not in arguments]
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)

    @wraps(command)
    def run(*, context: typer.Context, **values: Any) -> None:
        typed = frozenset(name for name in values if _was_typed(context, name))
        made = {}
        for name, group in groups.items():
            chosen = {p.name: values.pop(p.name) for p in shared[name]}
            if any(f.name == GIVEN for f in fields(group)):
                chosen[GIVEN] = typed & chosen.keys()
            made[name] = group(**chosen)
        command(**made, **values)

    # Typer reads the signature and the annotations.
    run.__signature__ = inspect.Signature([context, *parameters])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in (context, *parameters)}
    return run


def _options(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
        for f in fields(group)
        if hasattr(hints[f.name], "__metadata__")
    ]


def _was_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
