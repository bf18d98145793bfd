"""Draw the pictures that the README and the docs show: `make docs`."""

from __future__ import annotations

from pathlib import Path

from isometer.report.pictures import activation_picture, comparison_picture, save_figure
from isometer.theory import explain

PICTURES = Path(__file__).parent / "pictures"


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    cards = [explain(name) for name in ("relu", "tanh", "gelu", "normalized(relu)")]
    print(save_figure(comparison_picture(cards), PICTURES / "activations.png"))
    print(save_figure(activation_picture(explain("gelu")), PICTURES / "gelu.png"))


if __name__ == "__main__":
    main()
