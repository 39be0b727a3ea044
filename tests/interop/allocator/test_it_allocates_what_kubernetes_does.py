"""Kubernetes' allocator and ours, compared on random clusters and pods."""

import os
from collections import Counter
from collections.abc import Iterable
from itertools import count
from pathlib import Path

import pytest

from tests.interop.allocator.agreement import UNANSWERED, Json, agree, our_answer
from tests.interop.allocator.random_fleets import THEMES
from tests.interop.allocator.random_questions import random_questions
from tests.interop.allocator.random_worlds import random_mig_node, random_rollout, random_world
from tests.interop.oracle import GO, ask, build
from tests.seeds import choose_seed

COUNT = 4000
PARTITIONED = 150
ROLLOUTS = 2000
FLEETS = 150

pytestmark = [
    pytest.mark.skipif(GO is None, reason="Go is not installed"),
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(Path(__file__).parent, tmp_path_factory.mktemp("oracle"))


def test_random_pods_get_the_same_devices(oracle: Path) -> None:
    seed = choose_seed()
    print(f"SEED={seed}")
    questions = [random_world(seed + number) for number in range(int(os.environ.get("COUNT", COUNT)))]
    answers = ask(oracle, questions)
    verdicts = Counter(answer["verdict"] for answer in answers)
    print(verdicts)
    assert min(verdicts["allocated"], verdicts["node"], verdicts["claim"]) > len(questions) // 50
    assert sum(verdicts[each] for each in UNANSWERED) <= len(questions) // 100
    _compare(questions, answers, count(seed))


def test_random_pods_get_the_same_partitions(oracle: Path) -> None:
    seed = choose_seed()
    print(f"SEED={seed}")
    questions = [random_mig_node(seed + number) for number in range(PARTITIONED)]
    answers = ask(oracle, questions)
    verdicts = Counter(answer["verdict"] for answer in answers)
    print(verdicts)
    assert verdicts["allocated"] > len(questions) // 10
    _compare(questions, answers, count(seed))


def test_random_pods_get_the_same_devices_while_pools_are_replaced(oracle: Path) -> None:
    """Generations, slices that reach the node, and slice counts, in all combinations."""
    seed = choose_seed()
    print(f"SEED={seed}")
    questions = [random_rollout(seed + number) for number in range(ROLLOUTS)]
    answers = ask(oracle, questions)
    verdicts = Counter(answer["verdict"] for answer in answers)
    print(verdicts)
    assert min(verdicts["allocated"], verdicts["node"], verdicts["claim"]) > len(questions) // 50
    _compare(questions, answers, count(seed))


@pytest.mark.parametrize("theme", THEMES)
def test_random_pods_get_the_same_devices_of_pools_that_several_nodes_reach(oracle: Path, theme: str) -> None:
    seed = choose_seed()
    print(f"SEED={seed}")
    seeds, questions = [], []
    for number in range(int(os.environ.get("FLEETS", FLEETS))):
        of_fleet = random_questions(seed + number, theme)
        seeds += [seed + number] * len(of_fleet)
        questions += of_fleet
    answers = ask(oracle, questions)
    verdicts = Counter(answer["verdict"] for answer in answers)
    print(theme, verdicts)
    assert min(verdicts["allocated"], verdicts["node"]) > len(questions) // 20
    _compare(questions, answers, seeds)


def _compare(questions: list[Json], answers: list[Json], seeds: Iterable[int]) -> None:
    different = [
        (seed, theirs, ours)
        for seed, question, theirs in zip(seeds, questions, answers, strict=False)
        if not agree(theirs, ours := our_answer(question))
    ]
    assert not different, f"{len(different)} of {len(questions)} differ, first: {different[0]}"
