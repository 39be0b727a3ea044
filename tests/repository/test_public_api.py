"""The public API changes only on purpose: the text beside this file is reviewed."""

from pathlib import Path

from tests.repository.public_api import lines


def test_the_public_api_is_the_one_that_was_reviewed() -> None:
    reviewed = Path(__file__).with_name("public_api.txt").read_text().splitlines()
    assert list(lines()) == reviewed, (
        "on purpose? python -m tests.repository.public_api > tests/repository/public_api.txt"
    )
