"""A loss of the wrong size: seen, named and advised against, while the model stays as it is."""

from __future__ import annotations

import torch
from torch import nn

from isometer.doctor import diagnose, treat
from isometer.doctor.causes._data import ScaledLoss, loss_repairs

cross_entropy = nn.functional.cross_entropy


def test_a_scaled_loss_trains_as_its_gradients_do() -> None:
    torch.manual_seed(0)
    x, labels = torch.randn(16, 8), torch.randint(0, 3, (16,))
    plain, hooked = nn.Linear(8, 3), nn.Linear(8, 3)
    hooked.load_state_dict(plain.state_dict())
    ScaledLoss(1e4)(hooked)
    cross_entropy(plain(x), labels).backward()
    (1e-4 * cross_entropy(hooked(x), labels)).backward()
    torch.testing.assert_close(hooked.weight.grad, plain.weight.grad)


def test_losses_of_the_usual_size_are_left_alone() -> None:
    labels, values = torch.randint(0, 3, (16,)), torch.randn(16, 3)
    outputs = torch.randn(16, 3)
    for loss, target in (
        (cross_entropy, labels),
        (nn.functional.mse_loss, values),
        (nn.functional.l1_loss, values),
        (lambda y, t: cross_entropy(y, t, reduction="sum") / 4, labels),
        (lambda y, t: cross_entropy(y, t, label_smoothing=0.1), labels),
        (lambda y, t: -cross_entropy(y, t), labels),
        (lambda y, t: y.square().mean(), "nothing that a usual loss takes"),
    ):
        assert loss_repairs(loss, target, outputs) == []


def test_a_tiny_loss_is_the_cause_and_only_people_can_mend_it() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
    x = torch.randn(1024, 8)
    pairs = [(x[k : k + 32], (x[k : k + 32, 0] > 0).long()) for k in range(0, 1024, 32)]

    def tiny(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return 1e-8 * cross_entropy(output, target)

    report = diagnose(model, fresh=pairs, loss=tiny, optimizer="sgd", predict=False)
    assert report.trains["sgd"].verdict == "sick"
    assert [cause.modules for cause in report.causes] == [("loss",)]
    assert "Multiply the loss by 1e+08" in report.causes[0].repair
    treated = treat(model, report, batch=None, fresh=pairs, loss=tiny, optimizer="sgd")
    assert treated.applied == ()
    assert [step.id for step in treated.advice][:1] == ["scale-loss"]
    assert treated.summary.startswith("Sequential needs no treatment. To do: Multiply the loss")
