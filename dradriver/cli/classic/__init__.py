"""Classic claims (KEP-3063) for `get`, `explain` and `simulate`.

Law of this package: it reads and reports, and must not decide anything. A controller decides about the
claims.

- `claims`: which claims are classic, their mode, controller and state.
- `negotiation`: the negotiation about one pod.
- `controllers`: controllers that have never answered on this cluster, and the failures that they report.
"""

from dradriver.cli.classic.claims import ClassicClaim, ClassicClaims, ClassicState
from dradriver.cli.classic.controllers import reported_failure, silent_controllers
from dradriver.cli.classic.negotiation import NegotiationReport, find_negotiation

__all__ = [
    "ClassicClaim",
    "ClassicClaims",
    "ClassicState",
    "NegotiationReport",
    "find_negotiation",
    "reported_failure",
    "silent_controllers",
]
