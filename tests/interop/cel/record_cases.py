"""Record Kubernetes' verdicts of every case again: `python -m tests.interop.cel.record_cases`.

To add a case, add its expression to `written.json` and run this.
"""

import json
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from tests.conformance.cel.cases import CASES, load
from tests.interop.cel.random_expressions import random_device, random_expression
from tests.interop.oracle import ask, build

SEED = 20261121
RANDOM_CASES = 600


def _answered(program: Path, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each question with its verdict, and its cost if that does not depend on the order of a Go map."""
    rounds = [ask(program, questions) for _ in range(5)]
    cases = []
    for question, *answers in zip(questions, *rounds, strict=True):
        verdicts = {answer["verdict"] for answer in answers}
        costs = {answer["cost"] for answer in answers}
        if len(verdicts) > 1 or verdicts == {"panic"}:
            continue
        case = {**question, "verdict": verdicts.pop()}
        if len(costs) == 1 and case["verdict"] in {"true", "false"}:
            case["cost"] = costs.pop()
        cases.append(case)
    return cases


def _write(name: str, content: dict[str, Any]) -> None:
    head = {key: value for key, value in content.items() if key != "cases"}
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in content["cases"])
    start = json.dumps(head, ensure_ascii=False)[:-1]
    (CASES / name).write_text(f'{start}, "cases": [\n{lines}\n]}}\n', encoding="utf-8")


def main() -> None:
    """Write both files of recorded cases."""
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(__file__).parent, Path(folder))
        written = load("written.json")
        questions = [
            {"expression": case["expression"], "device": written["device"]} for case in written["cases"]
        ]
        cases = [{k: v for k, v in case.items() if k != "device"} for case in _answered(program, questions)]
        _write("written.json", {**written, "cases": cases})
        random = Random(SEED)
        asked = [
            {"expression": random_expression(random, random.choice((1, 2, 3))), "device": random_device(random)}
            for _ in range(RANDOM_CASES)
        ]
        asked = [question for question in asked if len(question["expression"]) < 2000]
        _write("random.json", {"seed": SEED, "cases": _answered(program, asked)})
        differences = load("differences.json")
        questions = [{"expression": c["expression"], "device": written["device"]} for c in differences["cases"]]
        for case, answer in zip(differences["cases"], ask(program, questions), strict=True):
            case["kubernetes"] = answer["verdict"]
        _write("differences.json", differences)
    sys.stdout.write(f"{len(cases)} written cases recorded\n")


if __name__ == "__main__":
    main()
