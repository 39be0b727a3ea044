"""Each message that docs/troubleshooting.md quotes is in the code."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
HEADINGS = re.findall(r"^### `(.+)`$", PAGE, re.MULTILINE)
PLACEHOLDER = re.compile(r"…|\b(?:NAME|N|NODE|POOL|FOLDER|GATE|COUNTER)\b")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """The text constants of the code. Values in an f-string are a space."""
    found: list[str] = []
    for path in sorted((ROOT / "dradriver").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                found.append("".join(constant(each) or " " for each in node.values))
            elif text := constant(node):
                found.append(text)
    return [without_quotes(each) for each in found]


def constant(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def without_quotes(text: str) -> str:
    return text.replace("`", "").replace("%s", " ")


def contains(text: str, fragments: list[str]) -> bool:
    """Whether the text has the fragments in this order."""
    start = 0
    for fragment in fragments:
        start = text.find(fragment, start)
        if start < 0:
            return False
        start += len(fragment)
    return True


def fragments(heading: str) -> list[str]:
    return [each.strip() for each in PLACEHOLDER.split(without_quotes(heading)) if len(each.strip()) > 1]


@pytest.mark.parametrize("heading", HEADINGS)
def test_a_quoted_message_is_in_the_code(heading: str, texts: list[str]) -> None:
    wanted = fragments(heading)
    assert sum(map(len, wanted)) >= 15, "the heading quotes too little of the message"
    assert any(contains(each, wanted) for each in texts)


def test_a_message_that_is_not_in_the_code_is_found(texts: list[str]) -> None:
    assert not any(contains(each, fragments("pool NAME is on the far side of the moon")) for each in texts)


def test_authors_operators_and_users_have_messages() -> None:
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    assert {each.partition("\n")[0]: each.count("\n### ") > 5 for each in sections[1:]} == {
        "For authors": True,
        "For operators": True,
        "For users": True,
    }
