"""Table 2 of paper 003: every symbol has a function of the library."""

from __future__ import annotations

import xarray

from isometer_papers.report.gallery import number
from isometer_papers.studies._drawing import Figure
from isometer_papers.studies._study import Choice, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies._tables import table_picture
from isometer_papers.studies.cells.notation import SYMBOLS, notation_cell

_FAR = 4.5  # standard errors that the law may be off, the largest over the entries of a covariance
_ROUNDING = 1e-10
# symbol: meaning, where the library has it, what it is compared with
MEANINGS: dict[str, tuple[str, str, str]] = {
    "ℓ": ("number of layers", "Spec.layers", "the depth asked for"),
    "n": ("batch size", "first axis of a batch", "the samples asked for"),
    "d": ("width", "Spec.widths", "the width asked for"),
    "k": ("output dimension", "Spec.widths[-1]", "the outputs asked for"),
    "X": ("input matrix", "simulate.make_batch", "a draw of NumPy, same seed"),
    "H_ℓ": ("representations at layer ℓ", "simulate.simulate", "log ‖H_ℓ‖_F = 0 (eq. 10)"),
    "BN": ("batch normalisation", "metrics.batch_normalize", "diag(MMᵀ)^−1/2 M"),
    "Law(X)": ("law of a random matrix", "runs of a simulation", "covariance of W H, in standard errors"),
    "σ_i(M)": ("i-th largest singular value", "metrics.spectrum", "eigenvalues of MᵀM"),
    "I_k": ("identity matrix", "metrics.orthogonality_gap", "gap 0 at the identity"),
    "1_k": ("all-ones vector", "metrics.batch_normalize", "adding 1 cᵀ changes nothing"),
}


def draw_notation(result: xarray.Dataset, settings: Settings) -> Figure:
    rows = []
    for symbol in settings["symbol"]:
        one = result.sel(symbol=symbol)
        rows.append([symbol, *MEANINGS[symbol], f"{float(one['error']):.2g}"])
    return table_picture(["symbol", "meaning", "in the library", "compared with", "largest\ndifference"], rows)


def read_notation(result: xarray.Dataset, settings: Settings) -> Reading:
    """Equality up to rounding, and for the law up to 4.5 standard errors."""
    numbers, statements = {}, {}
    for symbol in settings["symbol"]:
        error = float(result["error"].sel(symbol=symbol))
        allowed = _FAR if symbol == "Law(X)" else _ROUNDING
        statements[f"{symbol} is computed as defined ({MEANINGS[symbol][0]})"] = bool(error <= allowed)
        if symbol in ("Law(X)", "BN", "σ_i(M)"):
            numbers[f"difference, {symbol}"] = Measured(min(error, 1e300))
    agreed = sum(statements.values())
    return Reading(
        {"symbols that agree": Measured(float(agreed)), **numbers},
        dict(statements),
        f"{number(agreed)} of {len(statements)} symbols; the difference of the law is in standard errors.",
    )


_EXAMPLE = {"samples": 4, "width": 12, "depth": 5, "outputs": 3, "draws": 2000}
TABLE_2 = Study(
    "003/table-2",
    "the notation of the paper, and the functions that compute it",
    "A list of the symbols of the paper with their types and definitions.",
    {"symbols that agree": len(SYMBOLS)},
    notation_cell,
    Scale({"symbol": list(SYMBOLS)}, _EXAMPLE),
    Scale({"symbol": list(SYMBOLS)}, _EXAMPLE),
    draw_notation,
    read_notation,
    choices={
        "example": Choice("n = 4, d = 12, 5 layers, 3 outputs", "any will do", {"n = 7": {"samples": 7}}),
    },
    seconds=(5, 5),
)

STUDIES = (TABLE_2,)
