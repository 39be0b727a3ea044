"""The report of a node's driver is checked before it is written into the usage note."""

from typing import Any, cast

import pytest

from dradriver.conditions.releases.node_state import check_report
from dradriver.driver import NodeReport
from dradriver.errors import DraError

REPORT = NodeReport("no window", {"memory-0": "gone"}, {"systemUUID": "7"})


def test_a_report_is_returned() -> None:
    assert check_report(REPORT) == REPORT


@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        (None, "report() returned NoneType, must be a NodeReport"),
        (NodeReport(values=cast(Any, {"cores": 8})), "invalid NodeReport: Expected `str`, got `int`"),
        (NodeReport(problem=cast(Any, object())), "invalid NodeReport"),
        (NodeReport(problem="x" * 70_000), "must be at most 65536"),
    ],
)
def test_another_result_is_an_error(returned: object, problem: str) -> None:
    with pytest.raises(DraError) as raised:
        check_report(returned)
    assert problem in str(raised.value)
