"""The table of a driver's settings in `docs/reference/settings.md`.

python -m website.settings_table
"""

from dradriver.runner import OPTIONS

__all__ = ["render_settings"]

_ALL = "all"


def render_settings() -> str:
    """Return the Markdown table of all settings of a driver's process."""
    rows = ["| option | environment | default | drivers | meaning |", "|---|---|---|---|---|"]
    for option in OPTIONS:
        default = f"`{option.default}`" if option.default else ""
        environment = ", ".join(f"`{name}`" for name in option.environment)
        choices = f" (`{'`, `'.join(option.choices)}`)" if option.choices else ""
        drivers = ", ".join(option.only) or _ALL
        rows.append(f"| `{option.flag}` | {environment} | {default} | {drivers} | {option.help}{choices} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(render_settings(), end="")
