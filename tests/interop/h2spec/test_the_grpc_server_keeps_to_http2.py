"""h2spec, the conformance suite of HTTP/2 and HPACK, finds nothing wrong with the plugin's gRPC server."""

import asyncio
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import pytest

from dradriver.rpc import Server
from tests.e2e import programs

pytestmark = [
    pytest.mark.skipif(bool(programs.missing("h2spec")), reason=programs.missing("h2spec") or "-"),
    pytest.mark.timeout(300),
]

_NO_BODY: Final = (
    "what is no call of gRPC is answered without a body (tests/properties/test_http2_laws.py has this law)"
)

NOT_APPLICABLE: Final = {
    ("generic/2", "Sends a WINDOW_UPDATE frame on half-closed (remote) stream"): _NO_BODY,
    ("generic/2", "Sends a PRIORITY frame on half-closed (remote) stream"): _NO_BODY,
    ("http2/6.5.3", "Sends multiple values of SETTINGS_INITIAL_WINDOW_SIZE"): _NO_BODY,
    (
        "http2/6.9.1",
        "Sends SETTINGS frame to set the initial window size to 1 and sends HEADERS frame",
    ): _NO_BODY,
    ("http2/6.9.2", "Changes SETTINGS_INITIAL_WINDOW_SIZE after sending HEADERS frame"): _NO_BODY,
    ("http2/6.9.2", "Sends a SETTINGS frame for window size to be negative"): _NO_BODY,
    (
        "http2/5.1.2",
        "Sends HEADERS frames that causes their advertised concurrent stream limit to be exceeded",
    ): "its requests are answered as they come, never side by side (tests/unit/rpc has this rule)",
}
"""Cases that h2spec leaves out by itself, or that expect what no server of gRPC does; and why."""


async def test_every_case_that_applies_passes(tmp_path: Path) -> None:
    program, report = await asyncio.to_thread(programs.program, "h2spec"), tmp_path / "report.xml"
    server = Server({})
    listener = await asyncio.get_running_loop().create_server(server.accept, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    command = (program, "--strict", "--timeout", "1", "--port", str(port), "--junit-report", report)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    listener.close()
    await server.close()
    cases = ET.parse(report).getroot().iter("testcase")
    passed = {(case.get("package"), case.get("classname")): not len(case) for case in cases}
    assert len(passed) > 100, output.decode()
    assert {case for case, good in passed.items() if not good} == set(NOT_APPLICABLE), output.decode()
