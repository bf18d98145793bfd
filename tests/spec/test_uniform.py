"""Constant images in convolutional networks, and the networks without positions that stand for them."""

from __future__ import annotations

import numpy as np
import pytest

from isometer import IsometerError
from isometer.spec import Spec, uniform_positions
from isometer.theory.networks import network_kernels

_NETWORKS = (
    "input(3, [6, 6]) > conv(3, 8, gain=1.3) > bias(0.1) > act('tanh') > conv(3, 8, stride=2) > act('relu') > pool"
    " > dense(2)",
    "input(3, [7]) > conv(3, 4, padding='reflect') > repeat(residual(act('gelu') > conv(3, 4, gain=0.7), 0.5), 3)"
    " > flatten > dense(1)",
    "input(2, [6, 6]) > conv(3, 4, padding='valid') > sum(conv(1, 4), conv(3, 4, dilation=2)) > norm('layer')"
    " > act('erf') > pool('mean', 2) > dense(1)",
)


@pytest.mark.parametrize("text", _NETWORKS)
def test_constant_images_see_the_network_without_positions(text: str) -> None:
    """NNGP and NTK of constant images, by the interpreter of positions, are those of single vectors in the other."""
    spec = Spec(text)
    reduced, note = uniform_positions(spec)
    assert not reduced.shape.axes
    assert note == "of the uniform part of images"
    vectors = np.random.default_rng(0).standard_normal((3, spec.shape.width))
    images = np.broadcast_to(
        vectors.reshape(3, -1, *[1] * len(spec.shape.axes)), (3, spec.shape.width, *spec.shape.axes)
    )
    whole, single = (network_kernels(one, x) for one, x in ((spec, images), (reduced, vectors)))
    for kind in ("nngp", "ntk"):
        first, second = (found[kind].matrix * np.exp(found[kind].log_diagonal.max()) for found in (whole, single))
        np.testing.assert_allclose(first, second, rtol=1e-8)


def test_zero_padding_is_an_assumption_and_groups_are_refused() -> None:
    _, note = uniform_positions(Spec("input(3, [8, 8]) > conv(3, 4, padding='zeros') > act('relu')"))
    assert note.endswith("far from zero-padded borders")
    for text, word in (("conv(3, 3, groups=3)", "conv with groups"), ("dropout(0.1)", "dropout")):
        with pytest.raises(IsometerError, match=word):
            uniform_positions(Spec(f"input(3, [8, 8]) > {text} > act('relu')"))
