"""Draw the pictures that the README and the docs show: `make docs`."""

from __future__ import annotations

from pathlib import Path

from isometer.cli.demo import demo
from isometer.report.pictures import activation_picture, save_figure
from isometer.theory import explain

PICTURES = Path(__file__).parent / "pictures"


def main() -> None:
    demo(out=PICTURES)
    print(save_figure(activation_picture(explain("gelu")), PICTURES / "gelu.png"))


if __name__ == "__main__":
    main()
