# # Diagnose and repair a model that does not train
#
# You have a deep network. The loss does not fall, whatever the learning rate. This tutorial goes from the first
# diagnosis to a network that learns. Everything runs in seconds on a laptop, without a network connection.
#
# ## The patient
#
# Thirty layers of ReLU, built in the usual way, and a small task: classify ten clusters of points.

import torch
from torch import nn

import isometer

WIDTH, DEPTH, CLASSES = 32, 30, 10


def make(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    hidden = [module for _ in range(DEPTH) for module in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(WIDTH, CLASSES))


noise = torch.Generator().manual_seed(1)
centres = torch.randn(CLASSES, WIDTH, generator=noise)
labels = torch.arange(512) % CLASSES
points = centres[labels] + 0.3 * torch.randn(512, WIDTH, generator=noise)


def trained_loss(model: nn.Module, steps: int = 150) -> float:
    """The loss after a few steps of Adam; guessing gives log 10 = 2.30."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    for step in range(steps):
        rows = torch.arange(step * 32, step * 32 + 32) % 512
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(points[rows]), labels[rows])
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return nn.functional.cross_entropy(model(points), labels).item()


before = trained_loss(make())
print(f"loss after training: {before:.1f}")
# → loss after training: 2.3
assert before > 2.2

# It has learned nothing.
#
# ## What is wrong
#
# `diagnose` watches one forward and one backward pass; then it trains a copy for a few dozen steps. The model is
# left as it was. Since we know already that this one does not train, we leave out the training (`stress=False`), and
# the comparison with theory (`predict=False`).

model, batch = make(), points[:32]
report = isometer.diagnose(model, batch, stress=False, predict=False)
for finding in report.findings:
    print(finding.severity, finding.id)
# → severe rank-collapse
# → severe gradient-vanishing
# → severe gradient-alignment
# → severe wrong-gain

# Every finding states its evidence, the layers, and what you can do. The last one is the cause; the others follow
# from it:

cause = report.findings[-1]
print(f"gain {cause.evidence['typical_gain']:.2f}, should be {cause.evidence['principled_gain']:.2f}")
print([prescription.id for prescription in cause.prescriptions])
# → gain 0.58, should be 1.41
# → ['principled-gain', 'add-layer-norm', 'add-batch-norm']

# The *gain* is the standard deviation of the weights times the square root of the number of inputs. ReLU throws away
# half of a signal's power, so weights need a gain of √2 to make up for it. PyTorch's default is 1/√3. Each layer then
# shrinks the difference of two samples by 0.41; thirty layers shrink it by 10⁻¹².
#
# A notebook displays `report`; `report.to_html("report.html")` writes a page to keep.
#
# ## Repair
#
# `treat` makes changes on a copy and keeps what helps. Short trainings decide what does. Here we name the change and
# let findings decide (`stress=False`): we train both versions ourselves in a moment.

treatment = isometer.treat(model, report, batch=batch, choose=["principled-gain"], stress=False)
print(treatment.summary)
print(treatment.code)
# → principled-gain: no findings remain.
# → from isometer.init import principled_gain_
# →
# → principled_gain_(model, batch, law='keep', seed=0)

# The printed lines do the same in your own code. Without `choose` and with training, `treat` first repairs the causes
# that the search named, then tries prescriptions, and keeps those with which the model learns more.
#
# ## Does it train now?

cured = make()
treatment.repeat(cured, batch)
after = trained_loss(cured)
print(f"loss after training: {before:.1f} → {after:.0f}")
# → loss after training: 2.3 → 0
assert after < before - 1, "the same network, the same data, the same optimiser"

# ## And deeper?
#
# A right gain keeps the size of the signal. It does not keep samples distinct: at a hundred layers ReLU makes them
# parallel whatever the gain. [Choosing an activation](choose_an_activation.py) shows what does.
