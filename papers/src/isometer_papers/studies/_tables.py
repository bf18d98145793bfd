"""Tables as pictures, for studies whose original is a table."""

from __future__ import annotations

from collections.abc import Sequence

from isometer_papers.studies._drawing import Figure, single_panel

__all__ = ["table_picture"]

_ROW = 0.32  # inches
_LETTER = 0.083


def table_picture(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Figure:
    """A table drawn with matplotlib; columns are as wide as their longest text, which may have several lines.

    Example:
        >>> figure = table_picture(["order", "size"], [["1", "2.0"], ["2", "4.0"]])
        >>> len(figure.axes[0].tables)
        1
    """
    cells = [list(map(str, row)) for row in (header, *rows)]
    longest = [
        max(len(line) for text in column for line in text.split("\n")) + 2 for column in zip(*cells, strict=True)
    ]
    lines = [max(text.count("\n") + 1 for text in row) for row in cells]
    heights = [_ROW * (0.25 + 0.75 * count) for count in lines]
    width, height = max(_LETTER * sum(longest), 4.6), sum(heights) + 0.1
    figure, axis = single_panel(width=width, height=height + 0.45)
    axis.set_axis_off()
    total = sum(heights)
    table = axis.table(
        cellText=cells[1:],
        colLabels=cells[0],
        colWidths=[count / sum(longest) for count in longest],
        cellLoc="left",
        colLoc="left",
        bbox=(0.0, 0.0, 1.0, 1.0),
    )
    table.auto_set_font_size(False)
    table.set_fontsize(8.5)
    for (row, _), cell in table.get_celld().items():
        cell.set_height(heights[row] / total)
        cell.set_edgecolor("#bbbbbb")
        cell.set_linewidth(0.5)
        cell.visible_edges = "B"
        if row == 0:
            cell.set_text_props(weight="bold")
    return figure
