"""docs/observe.md names each metric that the code registers, and each reason of an Event."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/observe.md").read_text(encoding="utf-8")
METRIC = re.compile(
    r"(?:dradriver|scheduler|resourceclaim_controller|dynamic_resource_allocation|workqueue|device_taint_eviction)"
    r"(?:_[a-z0-9]+)+"
)
REASON = re.compile(r"(?:[A-Z][a-z]+){2,}")


def modules() -> Iterator[ast.Module]:
    for path in sorted((ROOT / "dradriver").rglob("*.py")):
        yield ast.parse(path.read_text(encoding="utf-8"))


def texts(tree: ast.AST) -> set[str]:
    return {
        each.value for each in ast.walk(tree) if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }


def imports_prometheus(tree: ast.Module) -> bool:
    return any(
        isinstance(each, ast.ImportFrom) and (each.module or "").startswith("prometheus_client")
        for each in ast.walk(tree)
    )


def test_each_metric_is_documented() -> None:
    names = {
        text for tree in modules() if imports_prometheus(tree) for text in texts(tree) if METRIC.fullmatch(text)
    }
    assert len(names) > 30
    assert {name for name in names if name not in PAGE} == set()


def test_each_reason_of_an_event_is_documented() -> None:
    reasons = {
        argument.value
        for tree in modules()
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        for before, argument in zip(call.args, call.args[1:], strict=False)
        if isinstance(before, ast.Constant)
        and before.value in {"Normal", "Warning"}
        and isinstance(argument, ast.Constant)
        and isinstance(argument.value, str)
        and REASON.fullmatch(argument.value)
    }
    assert len(reasons) > 4
    assert {reason for reason in reasons if f"`{reason}`" not in PAGE} == set()
