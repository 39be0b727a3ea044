"""docs/reference/settings.md has the settings of the code, and the variables of the drivers of the chart."""

from pathlib import Path
from typing import Any

import yaml

from website.settings_table import render_settings

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")


def test_the_table_is_the_table_of_the_code() -> None:
    assert render_settings() in PAGE


def test_the_variable_of_each_driver_of_the_chart_is_listed() -> None:
    values: dict[str, Any] = yaml.safe_load((ROOT / "packaging/chart/values.yaml").read_text(encoding="utf-8"))
    variables = {name: each.get("settingsVariable") for name, each in values["drivers"].items()}
    assert [f"| `{name}` | `{each}` |" for name, each in variables.items() if each] != []
    assert [name for name, each in variables.items() if each and f"| `{name}` | `{each}` |" not in PAGE] == []
