"""The ledger of claims: every checkable statement of the papers as a check that a program runs.

from isometer.claims import check, find

check(find("002/lem-1")[0]).verdict  # 'refuted'
"""

from isometer.claims.claim import Claim, Estimate, Search
from isometer.claims.ledger import ledger, tally
from isometer.claims.mutation import tightened
from isometer.claims.registry import Entry, all_claims, claims_of, find, inventory, papers
from isometer.claims.result import Result
from isometer.claims.running import check_here, check_many
from isometer.claims.verdict import check

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
    "papers",
    "tally",
    "tightened",
]
