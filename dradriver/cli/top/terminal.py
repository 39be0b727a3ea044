"""The terminal: a curses screen that writes only the characters that changed, in one synchronized update.

If the process dies by SIGKILL, the terminal keeps the alternate screen and its modes: the user types `reset`.
"""

import curses
import locale
import os
import signal
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Final, Self

from dradriver.cli.terminal.layout import text_width
from dradriver.cli.top.spans import HOLDER_STYLES, Line, Style
from dradriver.errors import DraError, UsageError

__all__ = ["Terminal"]

_BEGIN_UPDATE: Final = b"\x1b[?2026h"
_END_UPDATE: Final = b"\x1b[?2026l"
"""Synchronized output: the terminal shows the update as a whole. Other terminals ignore the sequences."""
_ESCAPE_MILLISECONDS: Final = 25
"""Time after which an escape character is the key Esc, and not the beginning of another key."""
_MANY_COLORS: Final = (37, 70, 136, 133, 33, 172, 98, 30, 169, 64, 104, 138)
"""Colors of the holders where a terminal has 256. They are readable on black and on white. Red is kept for
problems."""
_FEW_COLORS: Final = (
    curses.COLOR_CYAN,
    curses.COLOR_GREEN,
    curses.COLOR_YELLOW,
    curses.COLOR_MAGENTA,
    curses.COLOR_BLUE,
)
"""Colors of the holders in other terminals. White and black are missing, because one is the background."""
_REPEATED: Final = (curses.A_BOLD, curses.A_BOLD | curses.A_UNDERLINE, curses.A_UNDERLINE)
"""Attributes of the holders whose color is used for the first, second and third time."""
_KEYS: Final[Mapping[int | str, str]] = {
    curses.KEY_UP: "up",
    curses.KEY_DOWN: "down",
    curses.KEY_PPAGE: "pgup",
    curses.KEY_NPAGE: "pgdn",
    curses.KEY_HOME: "home",
    curses.KEY_END: "end",
    curses.KEY_ENTER: "enter",
    curses.KEY_BACKSPACE: "backspace",
    "\n": "enter",
    "\r": "enter",
    "\x7f": "backspace",
    "\b": "backspace",
    "\x1b": "esc",
    "\x02": "ctrl-b",
    "\x06": "ctrl-f",
    "\x0c": "ctrl-l",
    "\x15": "ctrl-u",
}


class Terminal:
    """The screen of the terminal: `with Terminal() as terminal`. The block's end restores the terminal.

    Only one method may run at a time. `draw` may run in a thread.
    """

    def __init__(self) -> None:
        """Check that stdin and stdout are a terminal.

        Raises:
            UsageError: they are not.
        """
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise UsageError("top needs a terminal on stdin and stdout: use --once to print one picture")
        self.input = sys.stdin.fileno()
        self._output = sys.stdout.fileno()
        self._lines: Sequence[Line] = ()
        self._attributes: dict[Style, int] = {}

    def __enter__(self) -> Self:
        """Open the screen.

        Raises:
            DraError: this machine does not know the type of the terminal.
        """
        with suppress(locale.Error):
            locale.setlocale(locale.LC_CTYPE, "")
        try:
            with _keep_ctrl_z():
                self._window = curses.initscr()
        except curses.error as error:
            kind = os.environ.get("TERM", "")
            raise DraError(
                f"this machine does not know the terminal type TERM={kind!r} ({error}): "
                "set TERM=xterm-256color, or use --once"
            ) from None
        try:
            curses.noecho()
            curses.cbreak()
            self._disable_flow_control()
            curses.set_escdelay(_ESCAPE_MILLISECONDS)
            self._window.keypad(True)  # noqa: FBT003 - curses' signature
            self._window.nodelay(True)  # noqa: FBT003
            with suppress(curses.error):
                curses.curs_set(0)
            self._attributes = _attributes()
            self.resize()
        except BaseException:
            curses.endwin()
            raise
        return self

    def _disable_flow_control(self) -> None:
        """Let Ctrl-S be a key without a meaning. It would otherwise stop the output, and the keys with it."""
        modes = termios.tcgetattr(self._output)
        modes[0] &= ~termios.IXON
        termios.tcsetattr(self._output, termios.TCSADRAIN, modes)
        # The modes to which the screen returns after it was suspended.
        curses.def_prog_mode()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        curses.endwin()

    @property
    def size(self) -> tuple[int, int]:
        """Return width and height in characters."""
        height, width = self._window.getmaxyx()
        return width, height

    def resize(self) -> None:
        """Take over the present size of the terminal. The next `draw` writes the whole screen."""
        width, height = os.get_terminal_size(self._output)
        curses.resizeterm(max(1, height), max(1, width))
        self.forget()

    def forget(self) -> None:
        """Write the whole screen at the next `draw`, because something else has written to the terminal."""
        self._window.clear()
        self._lines = ()

    def suspend(self) -> None:
        """Restore the terminal and stop this process, as Ctrl-Z does. Returns when the process continues."""
        curses.endwin()
        os.kill(os.getpid(), signal.SIGSTOP)

    def resume(self) -> None:
        """Take over the terminal after the process continues. The next `draw` writes the whole screen."""
        curses.reset_prog_mode()
        self.resize()

    def read_keys(self) -> list[str]:
        """Return the keys that were pressed: names of keys, or typed characters. Does not wait."""
        keys = []
        with suppress(curses.error):
            while True:
                key = self._window.get_wch()
                keys.append(_KEYS.get(key, key if isinstance(key, str) else ""))
        return [key for key in keys if key]

    def draw(self, lines: Sequence[Line]) -> None:
        """Show lines. Only changed characters are written; nothing is written if nothing has changed.

        Args:
            lines: as many lines as the screen has.
        """
        before = self._lines
        changed = [at for at, line in enumerate(lines) if at >= len(before) or before[at] != line]
        if not changed and len(before) == len(lines):
            return
        width, height = self.size
        for at in changed:
            if at < height:
                # The last place stays empty: terminals disagree where the cursor is after it is written.
                self._write(at, lines[at], width - (at == height - 1))
        self._lines = tuple(lines)
        os.write(self._output, _BEGIN_UPDATE)
        self._window.refresh()
        os.write(self._output, _END_UPDATE)

    def _write(self, at: int, line: Line, width: int) -> None:
        self._window.move(at, 0)
        self._window.clrtoeol()
        for text, style in line:
            shown, used = _fit_columns(text, width)
            width -= used
            # A terminal of one column has no place for the last line.
            with suppress(curses.error):
                self._window.addstr(shown, self._attributes.get(style, curses.A_NORMAL))


@contextmanager
def _keep_ctrl_z() -> Iterator[None]:
    """Let curses leave the handling of SIGTSTP (Ctrl-Z) to its caller.

    Otherwise curses ignores the signal while it writes, so a Ctrl-Z during an update of the screen is lost.
    curses decides this in `initscr`: it leaves a signal alone that has a handler.
    """
    before = signal.signal(signal.SIGTSTP, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, before)


def _attributes() -> dict[Style, int]:
    """Return the attributes of the styles. No style needs its color to be understood."""
    attributes: dict[Style, int] = {
        "title": curses.A_BOLD,
        "dim": curses.A_NORMAL,
        "problem": curses.A_BOLD,
        "selected": curses.A_REVERSE,
        **dict.fromkeys(HOLDER_STYLES, curses.A_BOLD),
    }
    if os.environ.get("NO_COLOR") or not curses.has_colors():
        return attributes
    curses.start_color()
    curses.use_default_colors()
    colors = _MANY_COLORS if curses.COLORS >= 256 else _FEW_COLORS
    for number, color in enumerate((curses.COLOR_RED, *colors), 1):
        curses.init_pair(number, color, -1)
    attributes["dim"] = curses.A_DIM
    attributes["problem"] |= curses.color_pair(1)
    for number, style in enumerate(HOLDER_STYLES):
        repeated, color = divmod(number, len(colors))
        attributes[style] = _REPEATED[repeated] | curses.color_pair(color + 2)
    return attributes


def _fit_columns(text: str, width: int) -> tuple[str, int]:
    """Return the part of a text that fits in the columns, and its width. Some characters need two columns."""
    if text.isascii():
        return text[:width], min(len(text), width)
    used = 0
    for at, character in enumerate(text):
        columns = text_width(character)
        if used + columns > width:
            return text[:at], used
        used += columns
    return text, used
