"""Record the answers of Kubernetes' allocator, with which tests without Go compare.

`python -m tests.interop.allocator.record_cases` writes `tests/conformance/allocator/answers.json`. Run it when
`random_worlds` changes.
"""

import json
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.interop.allocator.random_worlds import random_rollout, random_world
from tests.interop.oracle import ask, build

TARGET: Final = Path(__file__).parents[2] / "conformance/allocator/answers.json"
SEED: Final = 20_261_121
COUNT: Final = 250
ROLLOUTS: Final = 80
_LARGEST: Final = 5_000
"""Characters of a question; small ones are as good and easier to read."""


def _steady(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer without its random values."""
    for allocation in answer.get("allocations", ()):
        for result in allocation["devices"]["results"]:
            if "shareID" in result:
                result["shareID"] = "random"
    return answer


def main() -> None:
    """Write the file, one case in a line."""
    questions = [random_world(SEED + number) for number in range(COUNT)]
    questions += [random_rollout(SEED + number) for number in range(ROLLOUTS)]
    questions = [question for question in questions if len(json.dumps(question)) < _LARGEST]
    with tempfile.TemporaryDirectory() as folder:
        answers = ask(build(Path(__file__).parent, Path(folder)), questions)
    cases = [
        json.dumps({"question": question, "answer": _steady(answer)}, separators=(",", ":"))
        for question, answer in zip(questions, answers, strict=True)
        if answer["verdict"] not in {"slow", "panic"}
    ]
    TARGET.write_text("[\n" + ",\n".join(cases) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
