"""Figures and tables of the papers, each a study that one command makes again.

from isometer_papers.studies import find, reproduce

reproduce([find("003/fig-2b")], "gallery", scale="quick")
"""

from isometer_papers.studies._records import Made
from isometer_papers.studies._registry import all_studies, find, studies_of
from isometer_papers.studies._rereading import read_again
from isometer_papers.studies._running import reproduce
from isometer_papers.studies._settings import overridden, parse_changes
from isometer_papers.studies._study import Choice, Measured, Reading, Scale, Study

__all__ = [
    "Choice",
    "Made",
    "Measured",
    "Reading",
    "Scale",
    "Study",
    "all_studies",
    "find",
    "overridden",
    "parse_changes",
    "read_again",
    "reproduce",
    "studies_of",
]
