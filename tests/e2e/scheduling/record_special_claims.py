"""Record the special claims of kube-scheduler, with which tests without kube-scheduler compare.

`python -m tests.e2e.scheduling.record_special_claims` writes `tests/conformance/scheduler/special_claims.json`.
Run it when `generated_pods` changes.
"""

import asyncio
import json
from pathlib import Path
from typing import Final

from tests.conformance.scheduler.generated_pods import generated
from tests.e2e.scheduling.scheduled_cluster import connect, record_special_claims, scheduling_bed

TARGET: Final = Path(__file__).parents[2] / "conformance/scheduler/special_claims.json"
SEED: Final = 5004
COUNT: Final = 120


async def main() -> None:
    """Writes the file: a case a line."""
    pods = list(generated(SEED, COUNT))
    with scheduling_bed() as bed:
        async with connect(bed) as plane:
            found = await record_special_claims(plane, pods)
    cases = [
        json.dumps({"pod": pod, "answer": answer}, separators=(",", ":"))
        for pod, answer in zip(pods, found, strict=True)
    ]
    TARGET.write_text("[\n" + ",\n".join(cases) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
