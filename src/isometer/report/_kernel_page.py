"""The tangent kernel in the doctor's report: a section of the page, and lines for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from isometer.report._doctor_fragments import sparkline
from isometer.report._doctor_metrics import real
from isometer.report._numbers import number

_RATES = {"sgd": "gradient descent", "sgd_momentum": "gradient descent with momentum 0.9", "adam": "Adam"}
_ALIGNED = {"inputs": "the Gram matrix of the inputs", "labels": "the labels"}


def kernel_rows(kernel: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is known of a tangent kernel, name and number.

    Example:
        >>> numbers = {"condition_number": 20.0, "effective_rank": 3.2, "inputs": 4, "largest_eigenvalue": 2.0}
        >>> rows = kernel_rows({**numbers, "alignment": {"labels": 0.5}, "rates": {"sgd": {"rate": 0.25}}})
        >>> rows[0], rows[-1]
        (('condition number', '20'), ('largest stable rate, gradient descent', '0.25'))
    """
    rows = [
        ("condition number", number(real(kernel["condition_number"]))),
        ("effective rank", f"{number(real(kernel['effective_rank']), 3)} of {kernel['inputs']}"),
        ("largest eigenvalue", number(real(kernel["largest_eigenvalue"]))),
    ]
    rows += [(f"alignment with {_ALIGNED[key]}", f"{value:.2f}") for key, value in kernel["alignment"].items()]
    for key, name in _RATES.items():
        if key in kernel["rates"]:
            rate = kernel["rates"][key]["rate"]
            rows.append((f"largest stable rate, {name}", "any" if rate is None else number(rate, 3)))
    return rows


def kernel_section(kernel: Mapping[str, Any] | None) -> str:
    """The section of the page; empty where no kernel was requested.

    Example:
        >>> kernel_section(None), "about 40 s" in kernel_section({"skipped": "it would take about 40 s"})
        ('', True)
    """
    if kernel is None:
        return ""
    head = '<section id="kernel" aria-labelledby="kernel-title"><h2 id="kernel-title">Tangent kernel of the batch</h2>'
    if "skipped" in kernel:
        return f'{head}<p class="about">Not calculated: {escape(str(kernel["skipped"]))}</p></section>'
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in kernel_rows(kernel)
    )
    spectrum = [real(value) for value in reversed(kernel["spectrum"])]
    shares = sorted(kernel["shares"].items(), key=lambda one: -one[1])[:5]
    listed = ", ".join(f"<code>{escape(name)}</code> {100 * share:.0f} %" for name, share in shares)
    return (
        f'{head}<p class="about">Gradient descent learns fast along eigenvectors of large eigenvalue and slowly along '
        "the rest; the condition number is the ratio of the two. Rates above the largest stable one make the loss grow "
        f"at this point, for {escape(str(kernel['rates'].get('loss', 'mean squared error')))}.</p>"
        '<div class="columns"><div><table class="evidence"><caption>Numbers</caption>'
        f"<tbody>{rows}</tbody></table></div>"
        f"<figure><figcaption>Eigenvalues, largest first, on a logarithmic scale</figcaption>"
        f"{sparkline([value if value > 0 else float('nan') for value in spectrum], log=True)}"
        f'<p class="about">Largest shares of the trace: {listed}.</p></figure></div></section>'
    )
