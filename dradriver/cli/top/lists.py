"""The views of what waits, what changed, and which pools cannot be used; and the help."""

from collections.abc import Iterator
from datetime import datetime

from dradriver.cli.terminal.output import age
from dradriver.cli.top.keys import KEYS
from dradriver.cli.top.spans import Line, Span, Style, sanitize, shorten, wrapped
from dradriver.overview.values import Overview, RecentChange, Waiting

__all__ = ["change_lines", "help_lines", "list_changes", "list_problems", "list_waiting", "waiting_lines"]

_MARKS = (
    ("A B C", "a device in use; the same claim has the same color on all cards"),
    (".", "free"),
    ("+", "several devices in a place that is too small to show each of them"),
    ("!", "more is in use than the driver publishes (overdrawn), or a problem"),
    ("#", "a device after the 52nd of a card"),
)


def list_waiting(overview: Overview, width: int, now: datetime) -> Iterator[Line]:
    """Yield the pods and claims that wait, the oldest first, with their whole reasons.

    Args:
        overview: the overview.
        width: width of the lines in characters.
        now: the present time.
    """
    if not overview.waiting:
        yield (Span("No pod and no claim waits for devices.", "dim"),)
    for each in overview.waiting:
        yield from waiting_lines(each, width, now)


def list_changes(overview: Overview, width: int) -> Iterator[Line]:
    """Yield the recent changes, the newest first.

    Args:
        overview: the overview.
        width: width of the lines in characters.
    """
    if not overview.changes:
        yield (Span("Nothing has changed since the screen was opened.", "dim"),)
    for each in overview.changes:
        yield from change_lines(each, width)


def list_problems(overview: Overview, width: int) -> Iterator[Line]:
    """Yield the pools that cannot be used, with the reasons.

    Args:
        overview: the overview.
        width: width of the lines in characters.
    """
    if not overview.problems:
        yield (Span("All pools can be used.", "dim"),)
    for each in overview.problems:
        where = f" on node {each.node}" if each.node else ""
        yield from wrapped(f"! {each.driver}/{each.pool}{where}: {each.problem}", width, "problem", hanging=4)


def waiting_lines(each: Waiting, width: int, now: datetime, *, is_short: bool = False) -> Iterator[Line]:
    """Yield what a pod or claim waits for.

    Args:
        each: the pod or claim.
        width: width of the lines in characters.
        now: the present time.
        is_short: whether the reason is shortened to one line.
    """
    kind = "pod" if each.kind == "Pod" else "claim"
    where = f" on {each.node}" if each.node else ""
    text = f"{kind} {each.ref}{where}  {age(each.since, now)}  {each.reason}"
    if is_short:
        yield shorten((Span(f"  {sanitize(text)}"),), width)
    else:
        yield from wrapped(text, width, indent=2, hanging=6)


def change_lines(change: RecentChange, width: int, *, is_short: bool = False) -> Iterator[Line]:
    """Yield a change with its local time.

    Args:
        change: the change.
        width: width of the lines in characters.
        is_short: whether the text is shortened to one line.
    """
    mark = "! " if change.is_problem else ""
    text = f"{change.at.astimezone():%H:%M:%S}  {mark}{change.text}"
    style: Style = "problem" if change.is_problem else ""
    if is_short:
        yield shorten((Span(f"  {sanitize(text)}", style),), width)
    else:
        yield from wrapped(text, width, style, indent=2, hanging=12)


def help_lines(width: int) -> Iterator[Line]:
    """Yield the help.

    Args:
        width: width of the lines in characters.
    """
    yield (Span("KEYS", "title"),)
    labels = [*((binding.label, binding.help) for binding in KEYS), ("q, Ctrl-C", "quit")]
    column = max(len(label) for label, _ in labels)
    for label, text in labels:
        yield from wrapped(f"{label:{column}}  {text}", width, indent=2, hanging=column + 4)
    yield ()
    yield (Span("MARKS", "title"),)
    for mark, text in _MARKS:
        yield from wrapped(f"{mark:{column}}  {text}", width, indent=2, hanging=column + 4)
    yield ()
    text = (
        "USED is the mean of the bars in the list. FIT is the number of devices that claims can still "
        "get. Devices that exclude each other, such as partitions, all count until one of them is in use."
    )
    yield from wrapped(text, width, indent=2, hanging=2)
