"""The options of `isometer doctor`, by what they are about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from isometer.checks import WIDEST, seed_number, whole_number
from isometer.cli._network import NetworkText
from isometer.cli._panels import Panel
from isometer.cli._shared import INPUT, OUTPUT
from isometer.errors import IsometerError

EXAMINATION, TREATMENT = Panel("Examination"), Panel("Treatment")

Source = Annotated[
    str,
    INPUT(
        "--input",
        metavar="SOURCE",
        help="gaussian, a data set (fashion-mnist, cifar10, mnist, digits), or a file: .npy, .npz, .csv, "
        ".safetensors or torch tensors.",
    ),
]
Samples = Annotated[int | None, INPUT("--batch", metavar="N", help="Samples in the batch; 32 by default.")]
SampleShape = Annotated[
    str | None, INPUT("--shape", metavar="C,H,W", help="Shape of one sample, if it cannot be inferred from the model.")
]
Seed = Annotated[int, INPUT("--seed", metavar="S", help="Seed of batch, gradients and redraws.")]
Checkpoint = Annotated[
    Path | None,
    EXAMINATION("--checkpoint", metavar="FILE", help="Weights to load first: .safetensors or a torch state dict."),
]
Checkpoints = Annotated[
    str | None,
    EXAMINATION(
        "--checkpoints",
        metavar="'run/*.pt'",
        help="Examine all of these instead: layers, findings and warnings over the steps of a training run. With "
        "--compare 'other/*.pt', beside another run.",
    ),
]
Evaluate = Annotated[bool, EXAMINATION("--eval", help="Examine the model in evaluation mode instead of training mode.")]
Optimizer = Annotated[
    str | None,
    EXAMINATION(
        "--optimizer", metavar="NAME", help="Optimizer you train with: adam, sgd, adamw, …; adam and sgd by default."
    ),
]
Rate = Annotated[
    float | None, EXAMINATION("--lr", metavar="RATE", help="Your learning rate, judged beside the best one found.")
]
NoStress = Annotated[
    bool, EXAMINATION("--no-stress", help="Skip the training of a copy: a quick look that lists findings only.")
]
Budget = Annotated[
    float | None,
    EXAMINATION(
        "--budget",
        metavar="SECONDS",
        help="Time for the diagnosis, and again for --treat. By default the whole test runs, at most ten minutes.",
    ),
]
Kernel = Annotated[
    bool,
    EXAMINATION(
        "--kernel",
        help="Also the tangent kernel of the batch: spectrum, condition number, largest stable rates. The --html "
        "report includes it if it takes at most a few seconds.",
    ),
]
Treat = Annotated[
    str | None,
    TREATMENT(
        "--treat",
        metavar="all|ID,…",
        help="Repair a copy and keep what helps it train: recommended prescriptions, all, or these IDs.",
    ),
]
Trial = Annotated[
    int | None,
    TREATMENT(
        "--trial",
        metavar="STEPS",
        help="Then train the model and the repaired copy for this many steps: three learning rates, three seeds.",
    ),
]
Save = Annotated[
    Path | None, TREATMENT("--save", metavar="FILE.safetensors", help="Write the treated model's weights.")
]
Html = Annotated[Path | None, OUTPUT("--html", metavar="FILE", help="Write the interactive report.")]
Baseline = Annotated[
    Path | None,
    OUTPUT(
        "--compare",
        metavar="FILE.json",
        help="Report what improved or got worse since this --json report; with --checkpoints, checkpoints of another "
        "run.",
    ),
]
Layers = Annotated[int, OUTPUT("--layers", metavar="K", help="Rows of the per-layer table; 0 for all.")]


@dataclass(frozen=True)
class ExaminationOptions:
    """What is examined besides the target, with which input, and how."""

    network: NetworkText = None
    source: Source = "gaussian"
    batch: Samples = None
    shape: SampleShape = None
    seed: Seed = 0
    checkpoint: Checkpoint = None
    checkpoints: Checkpoints = None
    evaluate: Evaluate = False
    optimizer: Optimizer = None
    lr: Rate = None
    no_stress: NoStress = False
    budget: Budget = None
    kernel: Kernel = False

    def check(self) -> None:
        """Raise for numbers out of range."""
        seed_number(self.seed, "--seed")
        if self.batch is not None:
            whole_number(self.batch, "--batch", high=WIDEST, fix="pass the number of samples")
        if self.budget is not None and not self.budget > 0:
            raise IsometerError(f"--budget is {self.budget}; expected a positive number of seconds")
        if self.lr is not None and not 0 < self.lr < float("inf"):
            raise IsometerError(f"--lr is {self.lr}; expected a positive number")

    @property
    def mode(self) -> str:
        """`train` or `eval`."""
        return "eval" if self.evaluate else "train"


@dataclass(frozen=True)
class RepairOptions:
    """Whether and how a copy is repaired, and what becomes of it."""

    treat: Treat = None
    trial: Trial = None
    save: Save = None


@dataclass(frozen=True)
class ResultOptions:
    """Where the report goes, what it is compared with, and how long its table is."""

    html: Html = None
    baseline: Baseline = None
    layers: Layers = 24

    def check(self) -> None:
        """Raise for numbers out of range."""
        whole_number(self.layers, "--layers", low=0, fix="pass the number of rows, 0 for all")
