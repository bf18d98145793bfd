"""The Python lines that give the numbers of a state."""

from __future__ import annotations

from isometer.explore._state import LIMITS, ActivationState, DepthState
from isometer.explore._transformer_state import TransformerState, axis_text

__all__ = ["activation_lines", "depth_lines", "transformer_lines"]


def activation_lines(state: ActivationState) -> str:
    """Cards, kernel maps, paths and the phase of an activation state.

    Args:
        state: state of the lab.

    Returns:
        A program; it leaves `cards`, `paths`, `point` and `diagram`.

    Example:
        >>> print(activation_lines(ActivationState(activations=("relu",))).splitlines()[0])
        from isometer import activation
    """
    shape = "" if state.gain == 1.0 else f".gain({state.gain!r})"
    layer = f"norm={state.norm!r}, norm_position={state.position!r}, residual={state.residual!r}"
    return "\n".join(
        [
            "from isometer import activation",
            "from isometer.theory import explain, phase_diagram, phase_point",
            "",
            f"names = {list(state.activations)!r}",
            f"cards = {{name: explain(activation(name){shape}, {layer}) for name in names}}",
            "for name, card in cards.items():",
            "    way = card.approach",
            "    print(name, card.kernel.case, way.fixed_point, way.rate, way.depth_scale)",
            "    print(card.conclusion)",
            "",
            f"start, layers = {state.rho!r}, {state.layers}",
            "paths = {name: card.follow(start, layers).cosine for name, card in cards.items()}",
            "",
            f"point = phase_point({state.phase_of!r}, {state.sigma_w!r}**2, {state.sigma_b!r}**2)",
            "print(point.verdict)",
            f"diagram = phase_diagram({state.phase_of!r}, weight_limit={LIMITS['sigma_w'].high ** 2:g}, "
            f"bias_limit={LIMITS['sigma_b'].high ** 2:g}, points=41)",
        ]
    )


def depth_lines(state: DepthState) -> str:
    """Simulation, prediction and Gram matrix of a depth state.

    Args:
        state: state of the lab.

    Returns:
        A program; it leaves `simulated`, `predicted`, `band` and `gram` (the last two for one layer repeated only).

    Example:
        >>> "representations" in depth_lines(DepthState())
        True
    """
    from isometer.explore.jobs._depth import metrics_with

    written = bool(state.network)
    lines = [
        "from isometer.data import make_batch",
        *([] if written else ["from isometer.metrics import cosines"]),
        f"from isometer.simulate import {'' if written else 'representations, '}simulate",
        f"from isometer.spec import {'Spec' if written else 'chain_from_options'}",
        f"from isometer.theory.prediction import {'' if written else 'finite_width, missing_bands, '}predict",
        "from isometer.trajectory import summarize",
        "",
        *(_written_lines(state) if written else _chain_lines(state)),
        f"metrics = {metrics_with(state.rank)!r}",
        "",
        f"runs = simulate(spec, batch, runs={state.runs}, metrics=metrics, seed={state.seed})",
        "simulated = summarize(runs)  # mean, low, high",
        "predicted = predict(spec, batch, metrics=metrics)  # infinite width",
    ]
    return "\n".join([*lines, *([] if written else _layer_lines(state))])


def _written_lines(state: DepthState) -> list[str]:
    """By its first word, since nothing that is typed is parsed in this process."""
    from isometer.spec._presets import PRESETS

    first = state.network.partition("(")[0].strip()
    width = "" if first in ("input", *PRESETS) else f", width={state.width}"
    return [
        f"spec = Spec({state.network!r}{width})",
        "shape = spec.shape",
        f"batch = make_batch({state.source!r}, {state.batch}, shape.width * shape.positions, seed={state.seed})",
        f"batch = batch.reshape({state.batch}, shape.width, *shape.axes)",
    ]


def _chain_lines(state: DepthState) -> list[str]:
    gain = "'forward'" if state.gain == "forward" else "1.0"
    return [
        f"spec = chain_from_options(width={state.width}, depth={state.depth}, activation={state.activation!r},",
        f"                          norm={state.norm!r}, norm_position={state.position!r},",
        f"                          gamma={state.residual!r}, weights={state.weights!r}, gain={gain})",
        f"batch = make_batch({state.source!r}, {state.batch}, {state.width}, seed={state.seed})",
    ]


def _layer_lines(state: DepthState) -> list[str]:
    """What is known of one layer repeated only."""
    return [
        f"missing = missing_bands(spec, {state.batch}, metrics)",
        "known = [name for name in metrics if name not in missing]",
        "band = finite_width(spec, batch, metrics=known)  # this width",
        "",
        f"state = representations(spec, batch, layers=[{state.layer}], seed={state.seed})['state'].values[0, 0]",
        "gram = cosines(state)",
    ]


def transformer_lines(state: TransformerState) -> str:
    """Tokens by block and the diagram of a transformer state.

    Args:
        state: state of the lab.

    Returns:
        A program; it leaves `path` and `diagram`.

    Example:
        >>> print(transformer_lines(TransformerState(blocks=2)).splitlines()[5])
        spec = Spec("gpt(blocks=2, tokens=32, norm='post', qk_gain=1.0, branch=0.5, causal=False)")
    """
    network = f'"{state.network()}"' if '"' not in state.network() else repr(state.network())
    return "\n".join(
        [
            "import numpy as np",
            "",
            "from isometer.spec import Spec",
            "from isometer.theory.transformers import PresetPlane, token_diagram, token_path",
            "",
            f"spec = Spec({network})",
            f"path = token_path(spec, cosine={state.cosine!r}, backward=True)",
            "print(path.token_cosine[:, 0], path.attention_entropy[:, 0], path.log_jacobian[:, 0])",
            "",
            f"plane = PresetPlane({network}, {state.across!r}, {state.up!r})",
            f"across, up = {axis_text(state.across)}, {axis_text(state.up)}",
            f"diagram = token_diagram(plane, across, up, cosine={state.cosine!r})",
            "print(diagram.phase)",
        ]
    )
