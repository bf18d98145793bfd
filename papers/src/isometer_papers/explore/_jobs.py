"""What the ledger shows: claims and studies, from rooms that are heavy to load."""

from __future__ import annotations

from typing import Any


def claims() -> list[dict[str, Any]]:
    """Every claim with its verdict, as the package ships them.

    Example:
        >>> {row["verdict"] for row in claims()} <= {"holds", "refuted", "vacuous", "inconclusive"}
        True
    """
    from isometer_papers.claims import ledger

    return [statement.to_dict() for statement in ledger()]


def findings() -> list[dict[str, Any]]:
    """The findings that matter, with their text by heading.

    Example:
        >>> sorted(findings()[0])
        ['claims', 'id', 'parts', 'title']
    """
    from isometer_papers.claims import findings as all_findings

    return [
        {"id": one.id, "title": one.title, "parts": one.parts(), "claims": list(one.claims)} for one in all_findings()
    ]


def studies() -> list[dict[str, Any]]:
    """What every figure and table shows, as declared.

    Example:
        >>> sorted(studies()[0])
        ['data', 'id', 'published', 'shows', 'title']
    """
    from isometer_papers.studies import all_studies

    return [
        {
            "id": study.id,
            "title": study.title,
            "shows": study.shows,
            "published": {str(name): value for name, value in study.published.items()},
            "data": study.data,
        }
        for study in all_studies()
    ]
