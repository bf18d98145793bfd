"""A short Lightning training with the callback, for the tests: strategy, devices, precision, folder."""

from __future__ import annotations

import csv
import json
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402


def main() -> None:
    import lightning.pytorch as pl
    from lightning.pytorch.loggers import CSVLogger

    from isometer.doctor.watch.lightning import SignalCallback

    class Module(pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            blocks = [part for _ in range(4) for part in (nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU())]
            self.net = nn.Sequential(*blocks, nn.Linear(32, 4))

        def forward(self, x: torch.Tensor) -> Any:
            return self.net(x)

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            return nn.functional.cross_entropy(self(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.1)

    strategy, devices, precision, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
    torch.manual_seed(0)
    data = DataLoader(TensorDataset(torch.randn(512, 32), torch.randint(0, 4, (512,))), 32)
    logger = CSVLogger(folder, name="log")

    def trainer(epochs: int, log: Any) -> Any:
        return pl.Trainer(
            max_epochs=epochs,
            accelerator="cpu",
            devices=devices,
            strategy=strategy,
            precision=precision,
            logger=log,
            callbacks=[SignalCallback(when=4, budget=None)],
            enable_progress_bar=False,
            enable_model_summary=False,
            log_every_n_steps=1,
            default_root_dir=folder,
        )

    first = trainer(2, logger)
    first.fit(Module(), data)
    first.save_checkpoint(folder / "state.ckpt")
    again = trainer(3, False)
    again.fit(Module(), data, ckpt_path=folder / "state.ckpt")
    if first.global_rank == 0:
        rows = list(csv.DictReader((Path(logger.log_dir) / "metrics.csv").open()))
        told = {"rows": len(rows), "names": sorted(rows[0]), "rank": rows[-1]["signal/effective_rank/last"]}
        print("TOLD", json.dumps({**told, "steps": first.global_step, "resumed": again.global_step}))


if __name__ == "__main__":
    main()
