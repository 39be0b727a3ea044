"""`dradriver top`: a live screen of the devices of a cluster, of who has them, and of what waits.

Law of this package: `layout` is a pure function of the overview, the state and the size of the screen. Only
`screen`, `terminal` and `command` do I/O. No information is only in a color.

- `command`: the command and its options.
- `screen`: follows the cluster, reads keys and draws.
- `terminal`: the terminal (curses).
- `layout`: the whole screen as lines.
- `list_view`, `detail_view`, `lists`: the views.
- `bars`: draws devices in use to scale.
- `items`: the rows of the list, their order, and the filters.
- `state`: what the user has chosen.
- `keys`: the keys, as a table.
- `spans`: styled text.
"""

from dradriver.cli.top.command import top

__all__ = ["top"]
