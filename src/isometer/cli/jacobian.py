"""`isometer jacobian`: singular values of a network's Jacobian in theory, and of a model's as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from isometer.cli._model_options import ModelOptions
from isometer.cli._network import InputOptions, NetworkOptions, check_folders
from isometer.cli._option_groups import takes_options
from isometer.cli._shared import (
    MODEL,
    Json,
    Memory,
    Plot,
    Threads,
    Time,
    allowing,
    app,
    console,
    emit,
    next_step,
    status,
)

if TYPE_CHECKING:
    from isometer.empirical import EmpiricalJacobian
    from isometer.theory import JacobianLaw


@app.command()
@takes_options
def jacobian(
    network: NetworkOptions,
    data: InputOptions,
    model: ModelOptions,
    start: Annotated[
        str | None,
        MODEL(
            "--from",
            metavar="MODULE",
            help="Differentiate with respect to the output of this module; the input by default.",
        ),
    ] = None,
    end: Annotated[
        str | None,
        MODEL("--to", metavar="MODULE", help="Differentiate the output of this module; the model's output by default."),
    ] = None,
    plot: Plot = None,
    memory: Memory = None,
    time: Time = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Singular values of the input–output Jacobian: dynamical isometry, density, share of zeros.

    For a network, the command computes the law at infinite width by free probability: chains, norms, and skips whose
    branches begin with weights. For a --model, it examines the model on the batch, all samples together: in full where
    the Jacobian is small, otherwise by Lanczos quadrature with an error estimate. It adds the partial Jacobian norm of
    every module.

    Examples: [bold]isometer jacobian --activation tanh --weights orthogonal --depth 20[/],
    [bold]isometer jacobian --network "input(64) > repeat(residual(dense > act('relu') > dense), 8)" --plot j.png[/],
    [bold]isometer jacobian --model my_model.py:make --from embed --to blocks.3[/]
    """
    check_folders(plot)
    found: JacobianLaw | EmpiricalJacobian
    with allowing(memory, time):
        if model.check(network, only_models={"from": start, "to": end}, only_networks={}):
            found, document = _of_model(model, data, start, end, threads)
        else:
            found, document = _of_network(network, data)
    if plot is not None:
        found.plot(plot)
    if as_json:
        emit(document)
        return
    from isometer.report._jacobians import jacobian_card

    page = console()
    page.print(jacobian_card(document))
    again = (
        "--weights orthogonal" if "model" not in document and network.weights == "gaussian" else "--plot jacobian.png"
    )
    next_step(page, f"the same with {again}")


def _of_network(network: NetworkOptions, data: InputOptions) -> tuple[JacobianLaw, dict[str, Any]]:
    from isometer.theory import jacobian_spectrum

    square, cosine = 1.0, 0.0
    features = network.width
    if data.source != "gaussian":
        gram = data.gram() if data.is_wide else None
        if gram is None:
            samples = data.samples(network.width)
            features = samples.shape[-1]
            gram = samples @ samples.T / features
        square = float(gram.diagonal().mean())
        pairs = len(gram) * (len(gram) - 1)
        cosine = float((gram.sum() - gram.trace()) / pairs / square) if pairs and square > 0 else 0.0
    with status("Jacobian"):
        law = jacobian_spectrum(network.made(features), mean_square=square, cosine=cosine)
        return law, {**law.to_dict(), "mean_square_of_inputs": square, "cosine_of_inputs": cosine}


def _of_model(
    model: ModelOptions, data: InputOptions, start: str | None, end: str | None, threads: int | None
) -> tuple[EmpiricalJacobian, dict[str, Any]]:
    def work(examined: Any, inputs: Any, labels: Any, source: str) -> tuple[EmpiricalJacobian, dict[str, Any]]:
        from isometer.empirical import jacobian_spectrum, partial_jacobian_norms

        found = jacobian_spectrum(examined.model, inputs, start=start, end=end, mode=model.mode, seed=data.seed)
        norms = partial_jacobian_norms(examined.model, inputs, mode=model.mode, seed=data.seed)
        layers = {name: {"value": one.value, "error": one.error} for name, one in norms.items()}
        return found, {"model": examined.name, "batch": source, **found.to_dict(), "layers": layers}

    return model.examine(data, work, threads=threads, what="Jacobian")
