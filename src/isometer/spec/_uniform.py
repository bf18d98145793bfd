"""What constant images see of a convolutional network: a network without positions.

If all positions of a sample hold the same features, so do all positions behind a convolution, and every window sees one
vector: the convolution acts as a dense layer of its gain. Pools, flattening and upsampling then change nothing. The
uniform part of an image is also the one that decides between order and chaos (Xiao et al. 2018: no other Fourier mode
decays more slowly), so the phase of the network is that of the reduced one. Zero padding lowers the signal within the
kernel's reach of a border; far from it the same holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from isometer.spec._checks import SpecError
from isometer.spec._language import word_of
from isometer.spec._norm import Norm
from isometer.spec._program import Shape
from isometer.spec._reading import spec_of_steps
from isometer.spec._spec import Spec
from isometer.spec._steps import (
    Act,
    Bias,
    Convolution,
    Dense,
    Flatten,
    Join,
    Pool,
    Repeat,
    Residual,
    Scaling,
    Step,
    Upsample,
    walk,
)


def uniform_positions(spec: Spec) -> tuple[Spec, str]:
    """The network without positions that constant images see, and what is assumed, in one line.

    Example:
        >>> found, note = uniform_positions(Spec("input(3, [8, 8]) > conv(3, 16) > act('tanh') > pool > dense(2)"))
        >>> str(found), note
        ("input(3) > dense(16) > act('tanh') > dense(2)", 'of the uniform part of images')
    """
    steps = _reduced(spec.composition)
    zeros = any(isinstance(step, Convolution) and step.padding == "zeros" for step in walk(spec.composition))
    note = "of the uniform part of images" + (", far from zero-padded borders" if zeros else "")
    return spec_of_steps(steps, Shape(spec.shape.width)), note


def _reduced(steps: Sequence[Step]) -> tuple[Step, ...]:
    return tuple(one for step in steps for one in _of_step(step))


def _of_step(step: Step) -> tuple[Step, ...]:
    match step:
        case Convolution(groups=1):
            law = "gaussian" if step.weights == "gaussian" else "orthogonal"
            return (Dense(step.channels, step.gain, law),)
        case Pool() | Flatten() | Upsample():
            return ()
        case Residual():
            return (replace(step, branch=_reduced(step.branch)),)
        case Repeat():
            return (replace(step, body=_reduced(step.body)),)
        case Join():
            return (replace(step, branches=tuple(map(_reduced, step.branches))),)
        case Dense() | Act() | Bias() | Norm() | Scaling():
            return (step,)
        case _:
            what = "conv with groups" if isinstance(step, Convolution) else word_of(step)
            raise SpecError(
                f"{what} makes constant images differ between positions or channels; expected dense, conv, act, norm, "
                "bias, scale, pool, flatten and upsample — leave it out, or predict the network with your batch"
            )
