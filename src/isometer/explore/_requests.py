"""Which computations a state of a lab needs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from isometer.explore._desk import Computation
from isometer.explore._state import LIMITS, NETWORK, ActivationState, DepthState


def card_jobs(state: ActivationState) -> list[Computation]:
    """The analysis of each activation.

    Example:
        >>> [job.arguments["activation"] for job in card_jobs(ActivationState())]
        ['tanh', 'relu', 'gelu']
    """
    return [Computation("card", {"activation": name, **_layer(state)}) for name in state.activations]


def path_jobs(state: ActivationState) -> list[Computation]:
    """The cosine's way from ρ₀, for each activation."""
    more = {"rho": state.rho, "layers": state.layers}
    return [Computation("path", {"activation": name, **_layer(state), **more}) for name in state.activations]


def phase_jobs(state: ActivationState) -> list[Computation]:
    """The plane of variances, and the present point of it."""
    limits = {"weight_limit": LIMITS["sigma_w"].high ** 2, "bias_limit": LIMITS["sigma_b"].high ** 2}
    point = {"weight_variance": state.sigma_w**2, "bias_variance": state.sigma_b**2}
    return [
        Computation("phase", {"activation": state.phase_of, **limits}),
        Computation("phase_point", {"activation": state.phase_of, **point}),
    ]


def _layer(state: ActivationState) -> dict[str, Any]:
    return {"norm": state.norm, "position": state.position, "residual": state.residual, "gain": state.gain}


def network_arguments(state: DepthState) -> dict[str, Any]:
    """The network and its input.

    Example:
        >>> network_arguments(DepthState())["net"]["width"]
        100
    """
    values = asdict(state)
    return {
        "net": {name: values[name] for name in NETWORK},
        "source": state.source,
        "batch": state.batch,
        "seed": state.seed,
    }


def simulation_job(state: DepthState) -> Computation:
    """The simulated trajectory."""
    return Computation("simulated", {**network_arguments(state), "runs": state.runs, "rank": state.rank})


def prediction_job(state: DepthState) -> Computation:
    """The trajectory at infinite width."""
    return Computation("predicted", {**network_arguments(state), "rank": state.rank})


def own_width_job(state: DepthState) -> Computation:
    """The trajectory that theory predicts for this width."""
    return Computation("own_width", {**network_arguments(state), "rank": state.rank})


def pair_jobs(state: DepthState) -> list[Computation]:
    """Simulation and prediction of the state that this one is compared with; none if it is compared with nothing.

    Example:
        >>> [job.name for job in pair_jobs(DepthState(against="norm=batch"))], pair_jobs(DepthState())
        (['simulated', 'predicted'], [])
    """
    return [] if state.other is None else [simulation_job(state.other), prediction_job(state.other)]


def geometry_job(state: DepthState) -> Computation:
    """The batch in the chosen layer."""
    return Computation("geometry", {**network_arguments(state), "layer": state.layer})
