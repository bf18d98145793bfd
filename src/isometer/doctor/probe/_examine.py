"""One forward and one backward pass through any model, watched."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from isometer.checks import seed_number
from isometer.doctor.probe._backward import Backward
from isometer.doctor.probe._calling import call
from isometer.doctor.probe._capture import Capture
from isometer.doctor.probe._examination import Examination, LazyColumns, tabulate
from isometer.doctor.probe._given import BatchReader
from isometer.doctor.probe._loss import LossReading
from isometer.doctor.probe._made_up import made_up_batch
from isometer.doctor.probe._reachability import all_on_the_way
from isometer.doctor.probe._sites import Site
from isometer.doctor.probe._subject import Subject, examined
from isometer.doctor.probe._tensor_trees import dense, map_tensors, tensors
from isometer.doctor.probe._trace import TraceStep
from isometer.doctor.probe._unseen import Unseen
from isometer.doctor.probe._world import without_collection
from isometer.errors import IsometerError

Tensor = torch.Tensor
_EXPONENTS = (-40, -80, -110)  # of the factors a loss is multiplied by if its gradients overflow
_TOP = 120.0  # log₂ of a norm of gradients that float32 holds, with some room
_SEQUENCE_MODULES = (nn.RNNBase, nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)


def probe(
    model: nn.Module,
    batch: Any = None,
    target: Any = None,
    *,
    loss: Callable[..., Tensor] | None = None,
    layers: Sequence[str] | None = None,
    spectra: bool = False,
    mode: str | None = None,
    seed: int = 0,
) -> Examination:
    """Measure how a batch and its gradients travel through a model, and leave the model as it was.

    Every operation that computes is a site: layers, normalisations, activations, attention, additions, as modules or as
    functions, one site per call. Activations are reduced to Gram matrices and a few numbers where they appear; nothing
    larger is kept. If gradients overflow, the pass is repeated with the loss multiplied by a lower power of two, and
    the layers that were lost are filled in.

    The probe runs a copy. If a copy would not behave like the model or would refer back to it, the probe runs the model
    itself and restores it from a snapshot. Either way, one extra copy of the weights is in memory, gradients are set
    aside, and an interruption leaves the model as it was. At the end the model is compared with what it was before.

    Samples are on axis 0 of the batch, or on axis 1 if it is `(tokens, samples, …)` for a recurrent or attention module
    with `batch_first=False`.

    Args:
        model: any module; for a compiled one, the module it was made from.
        batch: what the model is called with: a tensor or array, a tuple or list of positional arguments, or a mapping
            of keyword arguments; or the shape of one sample, `(3, 32, 32)`, for Gaussian inputs. By default a batch is
            made for the model's first layer. Tensors are copied, so a model that writes to its input does not write to
            yours.
        target: second argument of the loss.
        loss: a function of the model's output (and the target, if given) that returns a scalar. Without one, the
            gradients are those of a standard Gaussian cotangent on every floating point output.
        layers: patterns of module names (`"blocks.*"`) to which the sites are restricted, all by default.
        spectra: also measure spectral norms and isometry gaps of weights.
        mode: `"train"` or `"eval"`; `None` is the mode the model is in.
        seed: seed of the cotangent, of sketches and of the global generators while the model runs (they are restored).

    Returns:
        An `Examination`.

    Raises:
        IsometerError: the batch or the model is not what a probe needs. Exceptions of the model itself pass through
            unchanged.
        ModelChangedError: the probe succeeded, but the model changed and could not be restored.

    Example:
        >>> model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> found = probe(model, torch.randn(5, 3))
        >>> found.to_dataset()["op"].values.tolist(), [site.depth for site in found.sites]
        (['input', 'Linear', 'ReLU', 'Linear'], [0, 1, 1, 2])
        >>> bool(model[0].weight.grad is None)
        True

    Implements: the measured side of 001/metric-isogap, 002/eq-3, 001/metric-cos; 002/prop-8 for gradient alignment.
    """
    model = checked(model, target=target, loss=loss, mode=mode, seed=seed)
    if batch is None:
        batch = made_up_batch(model, seed=seed)
    batch, target = BatchReader(model).read(batch, target, seed=seed)
    target = None if loss is None else target
    if isinstance(layers, str):
        layers = [layers]
    with examined(model, loss, target) as subject:
        return examine(subject, batch, target=target, loss=loss, layers=layers, spectra=spectra, mode=mode, seed=seed)


def checked(model: Any, *, target: Any, loss: Any, mode: str | None, seed: int = 0) -> nn.Module:
    """The model that is examined: of a compiled one, the one within.

    Raises:
        IsometerError: something is not what a probe needs.
    """
    examined_model = _checked_model(model)
    seed_number(seed)
    if mode not in (None, "train", "eval"):
        raise IsometerError(f"mode is {mode!r}; expected 'train', 'eval' or None — None keeps the mode of the model")
    if target is not None and loss is None:
        raise IsometerError(
            "target was given without loss; expected both — pass loss=torch.nn.functional.cross_entropy"
        )
    if loss is not None and not callable(loss):
        raise IsometerError(f"loss is a {type(loss).__name__}; expected a function — pass one, or an nn.Module")
    return examined_model


def examine(
    subject: Subject,
    batch: Any,
    *,
    target: Any = None,
    loss: Callable[..., Tensor] | None = None,
    layers: Sequence[str] | None = None,
    spectra: bool = False,
    mode: str | None = None,
    seed: int = 0,
    prepare: Callable[[nn.Module], None] | None = None,
    once: int | None = None,
    gradients: bool = True,
) -> Examination:
    """`probe` for a subject; `prepare` changes the model before every pass.

    Args:
        subject: the model.
        batch: as for `probe`, like the arguments that are not listed here.
        prepare: changes the model before every pass.
        once: one pass, with the loss multiplied by two to this power, and none after it: gradients that overflow are
            nan. The numbers are then calculated when they are asked for by name.
        gradients: `False` for the forward pass alone.
    """
    samples, tokens_first = _samples(subject.original, batch)
    found: list[Site] = []
    trace: tuple[TraceStep, ...] = ()
    outputs: tuple[int, ...] = ()
    missed: tuple[Unseen, ...] = ()
    early: dict[int, Tensor] = {}
    lost: int | None = None
    cotangents: Tensor | None = None
    end = LossReading()
    used = 0
    # What a loss does with the weights itself is in no inner product of inputs and cotangents.
    factored, exponents = not subject.joint, [once or 0]
    while exponents:
        exponent = exponents[0]
        backward = Backward(samples=samples, tokens_first=tokens_first, seed=seed, exponent=exponent)
        one = partial(
            _pass,
            batch=batch,
            target=target,
            loss=loss,
            backward=backward,
            samples=samples,
            tokens_first=tokens_first,
            layers=layers,
            spectra=spectra and not found,  # the weights are the same in later passes
            whole=once is None and not found,
            exponent=exponent,
            seed=seed,
            factored=factored,
            gradients=gradients,
            keep_graph=subject.has_history,
        )
        capture = subject.run(one, seed=seed, mode=mode, prepare=prepare)
        if capture.spared and once is None and any(s.factored and not backward.reached(s) for s in capture.sites):
            factored = False  # nothing behind a layer was asked for, so ask for its weights
            continue
        exponents.pop(0)
        # Of any pass with finite ones: only their cosines are read, which the factor leaves alone.
        if cotangents is None and backward.cotangents is not None and bool(backward.cotangents.isfinite().all()):
            cotangents = backward.cotangents
        read = [site.finished(backward.reading(site)) for site in capture.sites]
        if not found:
            found, trace, missed, outputs = read, tuple(capture.trace), capture.missed, capture.outputs
            early = capture.early
            end = LossReading(capture.loss, loss is None or math.isfinite(capture.loss), backward.output_norms)
            # Backward goes from the end: the largest layer is the first one met.
            lost = max((layer for layer, site in enumerate(found) if site.gradient_lost), default=None)
        else:
            found = _filled(found, read)
            if not all(map(math.isfinite, end.gradient_norms)):
                end = replace(end, gradient_norms=backward.output_norms)
        used = exponent
        if once is None:
            exponents = _next_exponents(found, exponent)
    found = [_of_original(site, subject) for site in found]
    broken = next((layer for layer, site in enumerate(found) if not site.finite), None)
    values = tabulate(found, cotangents) if once is None else LazyColumns(found, cotangents)
    return Examination(tuple(found), values, broken, lost, used, samples, seed, trace, outputs, missed, end, early)


def _of_original(site: Site, subject: Subject) -> Site:
    """With the parameters of the model itself, where a copy ran."""
    if not site.parameters:
        return site
    own = tuple(map(subject.original_id, site.parameters))
    return replace(site, weight=replace(site.weight, parameters=own))


def _next_exponents(sites: Sequence[Site], used: int) -> list[int]:
    """The factor of a further pass, if gradients were lost and a smaller one helps.

    The mildest that is enough, if the gradients go on to grow as they did where they were finite; the smallest after
    one that was not enough, so that there are three passes at most.
    """
    left = [exponent for exponent in _EXPONENTS if exponent < used]
    # Behind activations that are not finite no factor of the loss helps.
    if not left or not all(site.finite for site in sites) or not any(site.gradient_lost for site in sites):
        return []
    if used:
        return left[-1:]
    norms = [(layer, site.output_log_norm) for layer, site in enumerate(sites) if math.isfinite(site.output_log_norm)]
    if len(norms) < 2:
        return left[-1:]
    (first, low), (last, high) = norms[0], norms[-1]  # the first is the nearest to the input
    largest = low + first * (low - high) / (last - first)
    enough = [exponent for exponent in left if largest / math.log(2.0) + exponent < _TOP]
    return enough[:1] or left[-1:]


def _pass(
    model: nn.Module,
    *,
    batch: Any,
    target: Any,
    loss: Callable[..., Tensor] | None,
    backward: Backward,
    samples: int,
    tokens_first: bool,
    layers: Sequence[str] | None,
    spectra: bool,
    whole: bool,
    exponent: int,
    seed: int,
    factored: bool,
    gradients: bool,
    keep_graph: bool,
) -> Capture:
    """Forward under a capture, then backward; hooks are off afterwards, whatever happened."""
    capture = Capture(
        model,
        backward,
        samples=samples,
        tokens_first=tokens_first,
        layers=layers,
        spectra=spectra,
        whole=whole,
    )
    parameters = list(model.parameters())  # as the model came: it may exchange some
    leaves: list[Tensor] = []

    def own(tensor: Tensor) -> Tensor:
        """A copy with history, so that in-place operations on the input are possible and its gradient is seen."""
        if not tensor.is_floating_point():
            return tensor.detach().clone()
        leaves.append(tensor.detach().requires_grad_())
        return leaves[-1].clone()

    with without_collection(), _unhooked(capture, backward):
        inputs = map_tensors(own, batch)
        # what lies behind the input needs no other reason to be differentiated
        trained = [p for p in parameters if p.requires_grad and (p.dim() > 1 or not leaves)]
        capture.start(tensors(inputs))
        capture.attach()
        with _entered(capture):
            output = call(model, inputs)
        capture.end(output)
        capture.detach()
        del inputs
        nodes = capture.factored()
        if not gradients:
            return capture
        backward.watch_model(dense(output))
        outputs, cotangents, capture.loss = _loss(output, target, loss, exponent, seed)
        del output
        if factored:  # the norms of these gradients come from inner products: no need to form them
            spared = {s.factored for s in capture.sites if s.factored and capture.uses[s.factored] == 1}
            # Hooks of the user's own run only where the gradient is formed.
            fewer = [p for p in trained if id(p) not in spared or p._backward_hooks]
            capture.spared = all_on_the_way(nodes, outputs, [*leaves, *fewer])
            trained = fewer if capture.spared else trained
        del nodes
        if outputs:
            backward.watch_parameters(trained)
            trained = [p for p in trained if p.requires_grad]
            backward.running = True
            _differentiate(outputs, [*leaves, *trained], cotangents, keep_graph=keep_graph)
        if whole:
            capture.missed = tuple(capture.unseen(backward.parameter_log_norms))
    return capture


@contextmanager
def _entered(mode: Any) -> Iterator[None]:
    """A mode that is on; what is raised inside comes through even if it came while torch had taken the mode off."""
    mode.__enter__()
    try:
        yield
    except BaseException:
        with suppress(RuntimeError):  # there is nothing to take off
            mode.__exit__(None, None, None)
        raise
    mode.__exit__(None, None, None)


@contextmanager
def _unhooked(capture: Capture, backward: Backward) -> Iterator[None]:
    """No hooks afterwards."""
    try:
        yield
    finally:
        capture.detach()
        backward.detach()


def _loss(
    output: Any, target: Any, loss: Callable[..., Tensor] | None, exponent: int, seed: int
) -> tuple[list[Tensor], list[Tensor | None], float]:
    """What is differentiated, the cotangents to start from, where `None` is 1, and the value of the loss."""
    scale = 2.0**exponent
    if loss is not None:
        value = loss(output) if target is None else loss(output, target)
        if not isinstance(value, Tensor) or value.numel() != 1:
            came = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
            raise IsometerError(f"loss returned {came}; expected a scalar tensor — reduce it, with .mean() or .sum()")
        # The factor is the cotangent, not part of the loss: the forward pass stays as it was.
        # Without a factor it is left to torch, which need not import its symbolic shapes to check it.
        number = float(value.detach())
        if not value.requires_grad:
            return [], [], number
        return [value], [torch.full_like(value, scale) if exponent else None], number
    floating = dense(output)
    if not floating:
        raise IsometerError(
            f"the model returned a {type(output).__name__} without a floating point tensor; expected one to start the "
            "backward pass from — wrap the model so that it returns its representations"
        )
    generator = torch.Generator().manual_seed(seed)
    outputs: list[Tensor] = []
    cotangents: list[Tensor | None] = []
    # Drawn on the CPU in float32, for every output: no draw depends on device, precision or requires_grad.
    for tensor in floating:
        cotangent = torch.randn(tensor.shape, generator=generator, dtype=torch.float32) * scale
        if tensor.requires_grad:
            outputs.append(tensor)
            cotangents.append(cotangent.to(tensor))
    return outputs, cotangents, math.nan


def _differentiate(
    outputs: list[Tensor], inputs: list[Tensor], cotangents: list[Tensor | None], *, keep_graph: bool
) -> None:
    """The backward pass; gradients are read in hooks, nothing is accumulated."""
    try:
        with ExitStack() as stack:  # the hooks multiply, and not in half precision
            for device in {tensor.device.type for tensor in [*outputs, *inputs]}:
                stack.enter_context(torch.autocast(device, enabled=False))
            torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True, retain_graph=keep_graph)
    except RuntimeError as problem:
        if "checkpoint" in str(problem).lower() and "reentrant" in str(problem).lower():
            raise IsometerError(
                "the model uses reentrant checkpointing, whose gradients cannot be read without writing to .grad — "
                "call torch.utils.checkpoint.checkpoint(…, use_reentrant=False)"
            ) from problem
        raise


def _filled(found: list[Site], again: list[Site]) -> list[Site]:
    """With the gradients which a pass with a smaller loss could represent."""
    if [(site.name, site.op) for site in found] != [(site.name, site.op) for site in again]:
        return found
    return [
        replace(site, gradient=other.gradient) if site.gradient_lost and not other.gradient_lost else site
        for site, other in zip(found, again, strict=True)
    ]


def _checked_model(model: Any) -> nn.Module:
    if not isinstance(model, nn.Module):
        made = f"{model.__name__}(…)" if isinstance(model, type) else "an instance of one"
        fix = "build it with isometer.nn.build(spec)" if hasattr(model, "to_json") else f"pass {made}"
        raise IsometerError(f"model is a {type(model).__name__}; expected a torch.nn.Module — {fix}")
    model = getattr(model, "_orig_mod", model)
    if any(p is not None and nn.parameter.is_lazy(p) for part in model.modules() for p in part._parameters.values()):
        lazy = next(name for name, p in model.named_parameters() if nn.parameter.is_lazy(p))
        raise IsometerError(
            f"parameter {lazy!r} has no shape yet; expected an initialised model — run it on a batch once"
        )
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.is_meta:
            raise IsometerError(
                f"{name!r} is on the meta device and has no values; expected memory — call "
                "model.to_empty(device='cpu') and initialise it"
            )
    found: nn.Module = model
    return found


def _samples(model: nn.Module, batch: Any) -> tuple[int, bool]:
    """Number of samples, and whether tokens come before samples."""
    first = next((tensor for tensor in tensors(batch) if tensor.is_nested or tensor.dim() > 0), None)
    if first is None:
        raise IsometerError(
            f"batch is a {type(batch).__name__} without a tensor that has samples; expected a tensor, a tuple of "
            "positional arguments or a mapping of keyword arguments — pass torch.as_tensor(batch)"
        )
    if first.is_nested:
        raise IsometerError(
            "batch is a nested tensor; expected samples of one shape — pass a padded tensor, and a "
            "mask if the model takes one"
        )
    if not first.shape[0]:
        raise IsometerError(f"batch has shape {tuple(first.shape)}; expected at least one sample — pass more")
    # Tokens of floating point have features, indices have none.
    width = 3 if first.is_floating_point() else 2
    tokens_first = first.dim() == width and any(
        not getattr(module, "batch_first", getattr(getattr(module, "self_attn", None), "batch_first", True))
        for module in model.modules()
        if isinstance(module, _SEQUENCE_MODULES)
    )
    return int(first.shape[1 if tokens_first else 0]), tokens_first
