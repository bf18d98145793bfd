"""Isometer: an instrument for signal propagation in deep networks.

Predict what depth does to a batch (`predict`, `explain`, `phase_diagram`), simulate it at finite width (`simulate`),
diagnose and repair PyTorch models (`diagnose`, `treat`):

    import isometer

    report = isometer.diagnose(model)  # any torch.nn.Module
    treatment = isometer.treat(model, report)

Importing Isometer does not import torch; what needs it loads it when it is first used.
"""

import lazy_loader

# `simulate` is the function: the loader keeps its name from the package of the same name, which `from isometer.simulate
# import …` still finds.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
