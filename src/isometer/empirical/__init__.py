"""Kernels and curvature of one network on one batch: the tangent kernel as it is, batch norm in training mode included.

A model with batch norm is a function of its whole batch. Here f(θ) is the vector of *all* outputs of the batch, J its
Jacobian by the trained parameters, and the tangent kernel J Jᵀ: with batch statistics, sample i's outputs depend on
sample j's inputs, and J contains that. In a kernel between two batches each is normalised by itself.
"""

import lazy_loader

import isometer.extras.torch_needed  # noqa: F401

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
