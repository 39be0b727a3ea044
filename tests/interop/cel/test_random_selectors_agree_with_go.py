"""Kubernetes' evaluator and ours, compared on random selectors and devices."""

from pathlib import Path
from random import Random

import pytest

from tests.conformance.cel.cases import selector_device, verdict
from tests.interop.cel.random_expressions import random_device, random_expression
from tests.interop.oracle import GO, ask, build
from tests.seeds import choose_seed

COUNT = 4000

pytestmark = [
    pytest.mark.skipif(GO is None, reason="Go is not installed"),
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(Path(__file__).parent, tmp_path_factory.mktemp("oracle"))


def test_random_selectors_have_the_same_verdict(oracle: Path) -> None:
    seed = choose_seed()
    print(f"SEED={seed}")
    random = Random(seed)
    questions = [
        {
            "expression": random_expression(random, random.choice((1, 2, 3, 3, 4))),
            "device": random_device(random),
        }
        for _ in range(COUNT)
    ]
    questions = [question for question in questions if len(str(question["expression"])) < 9000]
    different = []
    for question, answer in zip(questions, ask(oracle, questions), strict=True):
        if answer["verdict"] == "panic":
            continue  # Kubernetes' evaluator crashed: there is no verdict to agree with.
        device = question["device"]
        assert isinstance(device, dict)
        ours, _ = verdict(str(question["expression"]), selector_device(device))
        if ours != answer["verdict"]:
            different.append((question, answer, ours))
    assert not different, f"seed {seed}: {len(different)} of {len(questions)} differ, first: {different[0]}"
