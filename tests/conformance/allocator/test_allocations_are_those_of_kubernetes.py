"""Allocations, compared with Kubernetes' allocator v0.37.0.

`tests/interop/allocator/record_cases.py` recorded its answers.
"""

import json
from pathlib import Path

from tests.interop.allocator.agreement import agree, our_answer

CASES = json.loads((Path(__file__).parent / "answers.json").read_text(encoding="utf-8"))


def test_recorded_pods_get_the_devices_that_kubernetes_gives_them() -> None:
    different = [
        (case, ours) for case in CASES if not agree(case["answer"], ours := our_answer(case["question"]))
    ]
    assert not different, f"{len(different)} of {len(CASES)} differ, first: {different[0]}"


def test_the_record_has_every_verdict() -> None:
    assert {case["answer"]["verdict"] for case in CASES} == {"allocated", "node", "claim"}
