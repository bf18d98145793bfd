"""Which part of a model is predicted: the chain in it, or the composition that describes more of it."""

from __future__ import annotations

from torch import nn

from isometer.doctor.prediction._extraction import ExtractedChain, chain_of
from isometer.doctor.prediction._networks import ExtractedNetwork, network_of
from isometer.doctor.prediction._predict_chain import Prediction, predict_chain
from isometer.doctor.prediction._predict_network import predict_network
from isometer.doctor.probe._examination import Examination


def overlay(model: nn.Module, examination: Examination, *, seed: int = 0) -> tuple[Prediction | None, str]:
    """What theory says about a model, or why it says nothing, in one line.

    A chain goes first where most of the weights are in it: it has gradients too.

    Example:
        >>> import torch
        >>> from isometer.doctor import probe
        >>> model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        >>> overlay(model, probe(model, torch.eye(2, 8)))[1]
        'the model has 1 layer of weights on (samples, features); a chain has at least 3'
    """
    chain = chain_of(model, examination, quick=True)
    if isinstance(chain, ExtractedChain):
        weights = sum(site.kind == "weight" for site in examination.sites)
        network = network_of(model, examination) if 2 * len(chain.modules) < weights else ""
        if isinstance(network, ExtractedNetwork) and network.spec.depth > len(chain.modules):
            return predict_network(network, examination, seed=seed), ""
        return predict_chain(chain, examination, seed=seed), ""
    network = network_of(model, examination)
    if isinstance(network, ExtractedNetwork):
        return predict_network(network, examination, seed=seed), ""
    return None, network if ";" in network else chain
