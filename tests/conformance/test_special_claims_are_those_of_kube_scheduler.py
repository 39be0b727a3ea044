"""Special claims and mappings recorded from kube-scheduler 1.37.0 (tests/e2e/record_special_claims.py)."""

import json
from pathlib import Path

from tests.conformance.generated_pods import kept, our_answer

CASES = json.loads((Path(__file__).parent / "special_claims.json").read_text(encoding="utf-8"))


def test_generated_pods_get_the_special_claims_and_mappings_that_kube_scheduler_makes() -> None:
    different = [(case, ours) for case in CASES if (ours := our_answer(case["pod"])) != kept(case["answer"])]
    assert not different, f"{len(different)} of {len(CASES)} differ, first: {different[0]}"


def test_the_record_has_init_containers_that_reuse_lend_and_share() -> None:
    users = [
        {m["containerName"] for m in case["answer"]["mappings"] if m["requestName"] == request["name"]}
        for case in CASES
        for request in case["answer"]["requests"]
    ]
    shared_by_init = [names for names in users if sum(name.startswith("init") for name in names) > 1]
    lent = [names for names in users if {name[:4] for name in names} == {"init", "main"}]
    assert len(shared_by_init) > 20
    assert len(lent) > 20
