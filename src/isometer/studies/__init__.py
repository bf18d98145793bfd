"""Figures and tables of the papers, each a study that one command makes again.

from isometer.studies import find, reproduce

reproduce([find("003/fig-2b")], "gallery", scale="quick")
"""

from isometer.studies.records import Made
from isometer.studies.registry import all_studies, find, studies_of
from isometer.studies.rereading import read_again
from isometer.studies.running import reproduce
from isometer.studies.settings import overridden, parse_changes
from isometer.studies.study import Choice, Measured, Reading, Scale, Study

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
