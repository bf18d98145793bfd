"""The ledger of claims: every checkable statement of the papers as a check that a program runs.

from isometer_papers.claims import check, find

check(find("002/lem-1")[0]).verdict  # 'refuted'
"""

from isometer_papers.claims._claim import Claim, Estimate, Search
from isometer_papers.claims._ledger import ledger, tally
from isometer_papers.claims._mutation import tightened
from isometer_papers.claims._registry import Entry, all_claims, claims_of, find, inventory
from isometer_papers.claims._result import Result
from isometer_papers.claims._running import check_here, check_many
from isometer_papers.claims._verdict import check

__all__ = [
    "Claim",
    "Entry",
    "Estimate",
    "Result",
    "Search",
    "all_claims",
    "check",
    "check_here",
    "check_many",
    "claims_of",
    "find",
    "inventory",
    "ledger",
    "tally",
    "tightened",
]
