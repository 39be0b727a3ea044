"""Asks kube-scheduler for the special claims that the tests without it compare with.

`python -m tests.e2e.record_special_claims` writes `tests/conformance/special_claims.json`. Run it when
`generated_pods` changes.
"""

import asyncio
import json
from pathlib import Path
from typing import Final

from tests.conformance.generated_pods import generated
from tests.e2e.scheduled import answers, scheduled, scheduling_bed

TARGET: Final = Path(__file__).parents[1] / "conformance/special_claims.json"
SEED: Final = 5004
COUNT: Final = 120


async def main() -> None:
    """Writes the file: a case a line."""
    pods = list(generated(SEED, COUNT))
    with scheduling_bed() as bed:
        async with scheduled(bed) as plane:
            found = await answers(plane, pods)
    cases = [
        json.dumps({"pod": pod, "answer": answer}, separators=(",", ":"))
        for pod, answer in zip(pods, found, strict=True)
    ]
    TARGET.write_text("[\n" + ",\n".join(cases) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
