from ._papers import Paper as Paper
from ._papers import paper as paper
from ._papers import papers as papers

__version__: str
from ._papers import studied_paper as studied_paper
from ._papers import studied_papers as studied_papers
