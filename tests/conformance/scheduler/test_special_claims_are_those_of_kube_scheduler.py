"""Special claims and mappings, compared with kube-scheduler 1.37.0.

`tests/e2e/scheduling/record_special_claims.py` recorded them.
"""

import json
from pathlib import Path

from tests.conformance.scheduler.generated_pods import our_answer, without_defaults

CASES = json.loads((Path(__file__).parent / "special_claims.json").read_text(encoding="utf-8"))


def test_generated_pods_get_the_special_claims_and_mappings_of_kube_scheduler() -> None:
    different = [
        (case, ours) for case in CASES if (ours := our_answer(case["pod"])) != without_defaults(case["answer"])
    ]
    assert not different, f"{len(different)} of {len(CASES)} differ, first: {different[0]}"


def test_the_record_has_init_containers_that_reuse_and_share_devices() -> None:
    users = [
        {m["containerName"] for m in case["answer"]["mappings"] if m["requestName"] == request["name"]}
        for case in CASES
        for request in case["answer"]["requests"]
    ]
    shared_by_init = [names for names in users if sum(name.startswith("init") for name in names) > 1]
    lent = [names for names in users if {name[:4] for name in names} == {"init", "main"}]
    assert len(shared_by_init) > 20
    assert len(lent) > 20
