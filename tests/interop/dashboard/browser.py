"""Drives Chromium over the DevTools protocol."""

import asyncio
import base64
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import aiohttp

_SECONDS = 60.0
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{root}/usr/share/fonts</dir><cachedir>{home}/fonts</cachedir></fontconfig>
"""


class Page:
    """A tab of the browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._number = socket, 0
        self.console: list[str] = []
        """Errors of the page, and of its Content-Security-Policy."""

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        async with asyncio.timeout(_SECONDS):
            while True:
                answer = await self._socket.receive_json()
                if answer.get("id") == self._number:
                    if "error" in answer:
                        raise AssertionError(f"{method}: {answer['error']}")
                    return dict(answer["result"])
                self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.console.append(str(event["params"]["exceptionDetails"]))
            case "Log.entryAdded" if event["params"]["entry"]["level"] == "error":
                self.console.append(event["params"]["entry"]["text"])

    async def start(self) -> Self:
        for domain in ("Page", "Runtime", "Log"):
            await self.call(f"{domain}.enable")
        return self

    async def look_as(self, width: int, height: int, scheme: str) -> None:
        """Set the size of the screen, and `light` or `dark`."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        await self.call("Emulation.setEmulatedMedia", features=features)

    async def open(self, url: str) -> None:
        await self.call("Page.navigate", url=url)

    async def evaluate(self, script: str) -> Any:
        """Return the value of an expression, which may be a promise."""
        answer = await self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    async def wait_for(self, script: str) -> None:
        """Wait until an expression is true in the page."""
        async with asyncio.timeout(_SECONDS):
            while True:
                try:
                    if await self.evaluate(script):
                        return
                except AssertionError:
                    pass  # the page is being loaded
                await asyncio.sleep(0.02)

    async def picture(self) -> bytes:
        """Return what is on the screen, as WebP."""
        answer = await self.call("Page.captureScreenshot", format="webp", quality=70)
        return base64.b64decode(answer["data"])


@asynccontextmanager
async def open_browser(root: Path, home: Path) -> AsyncIterator[Page]:
    """Start Chromium and yield its tab.

    Args:
        root: the folder into which it is unpacked.
        home: an empty folder for its files.
    """
    (home / "fonts.conf").write_text(_FONTS.format(root=root, home=home))
    libraries = [str(root / each) for each in ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib")]
    libraries += [str(each) for each in sorted((root / "usr/lib/x86_64-linux-gnu").glob("*/"))]
    environment = {
        **os.environ,
        "HOME": str(home),
        "LD_LIBRARY_PATH": ":".join(libraries),
        "FONTCONFIG_FILE": str(home / "fonts.conf"),
        "LANG": "C.UTF-8",
    }
    profile = home / "profile"
    process = await asyncio.create_subprocess_exec(
        str(root / "usr/lib/chromium/chromium"),
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
        *("--disable-dev-shm-usage", "--disable-background-networking", "--force-color-profile=srgb"),
        *("--font-render-hinting=none", "--disable-lcd-text", "--remote-debugging-port=0"),
        *(f"--user-data-dir={profile}", "about:blank"),
        env=environment,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=(home / "log").open("wb"),
    )
    try:
        port = await _read_port(profile / "DevToolsActivePort", process)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json") as answer:
                target = next(each for each in await answer.json() if each["type"] == "page")
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                yield await Page(socket).start()
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        await asyncio.to_thread(shutil.rmtree, profile, ignore_errors=True)


async def _read_port(path: Path, process: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(_SECONDS):
        while process.returncode is None:
            if path.exists() and (text := path.read_text()):
                return int(text.splitlines()[0])
            await asyncio.sleep(0.05)
    raise AssertionError("Chromium has ended")
