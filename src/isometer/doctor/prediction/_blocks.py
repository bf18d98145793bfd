"""Runs of equal blocks along the paths of a model.

A path goes from a sink back to the input, at additions through the side with more weights. Without skips a block starts
at its weights; with them at what is added. A block is written as letters, `w` weights, `n` normalisation, `a`
activation, `r` addition, `s` multiplication by a number, and is a layer of a spec if `_grammar` finds nothing wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from isometer.doctor.prediction._graph import Flow, Node

_SINKS = 64  # ends of paths that are followed
_LETTERS: dict[str, str] = {"weight": "w", "norm": "n", "activation": "a", "add": "r", "scale": "s"}


@dataclass(frozen=True, eq=False)
class Segment:
    """Nodes from one boundary to the next.

    Attributes:
        letters: what they are.
        start: index of the node that the block reads.
        end: index of its last node that is not a multiplication by a number.
        nodes: indices, one per letter.
        factors: by position in `letters`, of multiplications, and of the branch at an addition.
        reason: why it is no layer of a spec, empty if it is one.
    """

    letters: str
    start: int
    end: int
    nodes: tuple[int, ...]
    factors: dict[int, float]
    reason: str

    def step(self, letter: str) -> int | None:
        """The node of a letter, `None` if the block has none."""
        position = self.letters.find(letter)
        return None if position < 0 else self.nodes[position]


def runs_of_blocks(graph: Flow) -> tuple[list[list[Segment]], list[str]]:
    """Runs of blocks of one kind, longest first, and what is wrong with the others.

    Example:
        >>> kinds = ("input", "weight", "activation", "weight")
        >>> nodes = tuple(Node(kind, "", (i - 1,) if i else ()) for i, kind in enumerate(kinds))
        >>> [[block.letters for block in run] for run in runs_of_blocks(Flow(nodes))[0] if run]
        [['wa'], ['w']]
    """
    nodes = graph.nodes
    depths: list[int] = []
    for node in nodes:
        depths.append(max((depths[i] for i in node.inputs), default=0) + (node.kind == "weight"))
    read = {source for node in nodes for source in node.inputs}
    sinks = sorted((i for i in range(len(nodes)) if i not in read), key=lambda i: -depths[i])[:_SINKS]
    runs: list[list[Segment]] = []
    reasons: list[str] = []
    for sink in sinks:
        path, skips = _path(nodes, depths, sink)
        for blocks in (_residual_blocks(nodes, path, skips), _plain_blocks(nodes, path, skips)):
            reasons += [block.reason for block in blocks if block.reason]
            run: list[Segment] = []
            for block in blocks:
                if run and not (block.start == run[-1].nodes[-1] and _alike(nodes, run[-1], block)):
                    runs.append(run)
                    run = []
                run = [] if block.reason else [*run, block]
            runs.append(run)
    runs.sort(key=len, reverse=True)
    return runs, list(dict.fromkeys(reasons))


def _path(nodes: Sequence[Node], depths: Sequence[int], sink: int) -> tuple[list[int], dict[int, int]]:
    """From the input to a sink, at additions through the deeper side; and for each addition what is added there."""
    path, skips = [sink], {}
    while nodes[path[-1]].inputs:
        inputs = nodes[path[-1]].inputs
        deepest = max(inputs, key=lambda i: (depths[i], i))
        if nodes[path[-1]].kind == "add":
            skips[path[-1]] = inputs[1] if deepest == inputs[0] else inputs[0]
        path.append(deepest)
    return path[::-1], skips


def _plain_blocks(nodes: Sequence[Node], path: Sequence[int], skips: dict[int, int]) -> list[Segment]:
    starts = [position for position, index in enumerate(path) if nodes[index].kind == "weight" and position]
    blocks = []
    for begin, end in pairwise([*starts, len(path)]):
        inside = list(path[begin:end])
        if end == len(path) or begin == starts[-1]:  # after the last weights: what follows may belong to something else
            inside = _until_foreign(nodes, inside)
        blocks.append(_block(nodes, path[begin - 1], inside, skips))
    return [block for block in blocks if block.letters]


def _until_foreign(nodes: Sequence[Node], inside: list[int]) -> list[int]:
    kept: list[int] = []
    for index in inside:
        letter = _LETTERS.get(nodes[index].kind)
        if kept and (letter is None or letter in ("w", "r") or nodes[index].reason):
            break
        kept.append(index)
    return kept


def _residual_blocks(nodes: Sequence[Node], path: Sequence[int], skips: dict[int, int]) -> list[Segment]:
    position = {index: place for place, index in enumerate(path)}
    starts = [position[skips[index]] for index in path if index in skips and skips[index] in position]
    if not starts:
        return []
    starts = sorted(set(starts))
    blocks = []
    for begin, end in pairwise(starts):
        blocks.append(_block(nodes, path[begin], list(path[begin + 1 : end + 1]), skips))
    last = starts[-1]
    # No later start ends the last block: it is taken to be as long as the one before.
    length = len(blocks[-1].nodes) if blocks else 0
    tail = list(path[last + 1 : last + 1 + length])
    if len(tail) == length and length:
        blocks.append(_block(nodes, path[last], tail, skips))
    return blocks


def _block(nodes: Sequence[Node], start: int, inside: list[int], skips: dict[int, int]) -> Segment:
    letters = "".join(_LETTERS.get(nodes[index].kind, "?") for index in inside)
    reason = next((nodes[index].reason for index in inside if nodes[index].reason), "")
    factors: dict[int, float] = {}
    for place, index in enumerate(inside):
        node = nodes[index]
        if node.kind == "scale":
            factors[place] = node.factors[0]
        elif node.kind == "add" and not reason:
            skip = skips[index]
            side = node.inputs.index(skip)
            if skip != start or node.factors[side] != 1.0:
                reason = "an addition adds something else than the input of its block"
            factors[place] = node.factors[1 - side]
    if not reason:
        reason = _grammar(letters)
    end = next((index for index in reversed(inside) if nodes[index].kind != "scale"), start)
    return Segment(letters, start, end, tuple(inside), factors, reason)


def _grammar(letters: str) -> str:
    """Why a block is no layer of a spec."""
    for letter, what in (("w", "weight layers"), ("n", "normalisations"), ("a", "activations"), ("r", "additions")):
        count = letters.count(letter)
        if count > 1 or (letter == "w" and count == 0):
            return f"a block has {count} {what}; a layer of the theory has {'one' if letter == 'w' else 'at most one'}"
    if "r" in letters and letters.index("r") < letters.index("w"):
        return "a block adds its input before its weights"
    for place, letter in enumerate(letters):
        before, after = letters[place - 1 : place], letters[place + 1 : place + 2]
        # A factor is γ before an addition, part of a gain behind weights or at the end, α before the activation.
        allowed = (after == "r") if "r" in letters else (before == "w" or after in ("", "a"))
        if letter == "s" and not allowed:
            return "a block is multiplied by a number where the theory's layer is not"
    return ""


def _alike(nodes: Sequence[Node], one: Segment, two: Segment) -> bool:
    def features(block: Segment) -> tuple[object, ...]:
        norm, phi = block.step("n"), block.step("a")
        kept = None if norm is None else nodes[norm].norm
        return block.letters, kept, None if phi is None else nodes[phi].activation

    return features(one) == features(two)
