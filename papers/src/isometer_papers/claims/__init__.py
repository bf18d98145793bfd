"""The ledger of claims: every checkable statement of the papers as a check that a program runs.

from isometer_papers.claims import check, find

check(find("002/lem-1")[0]).verdict  # 'refuted'
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
