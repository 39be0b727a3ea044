"""The page in Debian's Chromium: what people see, with which keys, and without barriers.

To write the golden pictures again: `python -m tests.interop.dashboard.test_the_page_in_chromium`.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from dradriver.monitor.dashboard.visibility import EVERYTHING, Visibility
from dradriver.monitor.dashboard.visitors import NotAuthenticatedError
from dradriver.overview import OverviewUpdate
from tests.drivers.guest.cache import UnavailableError
from tests.interop.dashboard.axe import fetch_axe
from tests.interop.dashboard.browser import Page, open_browser
from tests.interop.dashboard.chromium import fetch_chromium, find_missing
from tests.interop.dashboard.clusters import CLUSTERS, SCHEMES, SIZES
from tests.interop.dashboard.pictures import find_difference
from tests.unit.monitor.still_overview import StillOverview, served

pytestmark = pytest.mark.interop

GOLDEN: Final = Path(__file__).parent / "golden"
PICTURES: Final = [
    (cluster, size, scheme)
    for cluster in CLUSTERS
    for size in (SIZES if cluster == "busy" else ("laptop",))
    for scheme in SCHEMES
]
DRAWN: Final = """performance.getEntriesByName("drawn").length > 0 && !!document.querySelector("#state.live")
    && !!document.querySelector(".card")"""


@pytest.fixture(scope="module")
def chromium() -> Path:
    if reason := find_missing():
        pytest.skip(reason)
    try:
        return fetch_chromium()
    except UnavailableError as error:
        pytest.skip(f"no Chromium: {error}")


@pytest.fixture
async def page(chromium: Path, tmp_path: Path) -> AsyncIterator[Page]:
    async with open_browser(chromium, tmp_path) as opened:
        yield opened
        assert opened.console == []


async def show(page: Page, url: str, size: str = "laptop", scheme: str = "light") -> None:
    await page.look_as(*SIZES[size], scheme)
    await page.open(url)
    await page.wait_for(DRAWN)
    # Two frames later, everything that is near the screen is drawn.
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


async def take_picture(page: Page, cluster: str, size: str, scheme: str) -> bytes:
    live = StillOverview(CLUSTERS[cluster]())
    async with served(live) as url:
        await show(page, url, size, scheme)
        picture = await page.picture()
        await page.open("about:blank")
        return picture


@pytest.mark.parametrize(("cluster", "size", "scheme"), PICTURES)
async def test_the_page_looks_like_the_golden_picture(page: Page, cluster: str, size: str, scheme: str) -> None:
    picture = await take_picture(page, cluster, size, scheme)
    golden = (GOLDEN / f"{cluster}-{size}-{scheme}.webp").read_bytes()
    assert await find_difference(page, picture, golden) == ""


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
async def test_axe_finds_no_barrier(page: Page, size: str, scheme: str) -> None:
    try:
        axe = await asyncio.to_thread(fetch_axe)
    except UnavailableError as error:
        pytest.skip(f"no axe-core: {error}")
    async with served(StillOverview(CLUSTERS["busy"]())) as url:
        await show(page, url, size, scheme)
        await page.evaluate(f"{axe}; 0")
        assert await find_violations(page) == []
        await page.evaluate("document.querySelector('#nodes .card').click()")
        await page.wait_for("!!document.querySelector('dialog[open] .detail svg')")
        assert await find_violations(page) == []


async def find_violations(page: Page) -> list[str]:
    script = "axe.run().then((found) => found.violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html)}`))"
    return list(await page.evaluate(script))


@pytest.mark.parametrize("size", SIZES)
async def test_the_page_is_never_wider_than_the_screen(page: Page, size: str) -> None:
    async with served(StillOverview(CLUSTERS["busy"]())) as url:
        await show(page, url, size)
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_a_change_of_the_cluster_is_drawn(page: Page) -> None:
    overview = CLUSTERS["busy"]()
    live = StillOverview(overview)
    async with served(live) as url:
        await show(page, url)
        assert await page.evaluate("document.querySelectorAll('#nodes .row').length") == 12
        nodes = {name: node for name, node in overview.nodes.items() if name != "node-02"}
        nodes["node-01"] = replace(nodes["node-01"], is_ready=False)
        live.change(replace(overview, nodes=nodes), OverviewUpdate(nodes=frozenset({"node-01", "node-02"})))
        await page.wait_for("document.querySelectorAll('#nodes .row').length === 11")
        assert "not ready" in await page.evaluate("document.querySelector('#nodes .head').textContent")


async def test_each_card_names_its_claims_and_the_summary_counts_nodes_of_shared_pools(page: Page) -> None:
    async with served(StillOverview(CLUSTERS["busy"]())) as url:
        await show(page, url)
        await page.wait_for("document.querySelectorAll('#nodes .row:first-child .holders').length === 2")
        holders = "[...document.querySelectorAll('#nodes .row:first-child .holders')].map((e) => e.textContent)"
        assert await page.evaluate(holders) == ["Adefault/trainBdefault/infer", "Adefault/whole"]
        assert await page.evaluate("document.querySelector('#summary').textContent.startsWith('18nodes with')")


async def test_the_keyboard_reaches_the_explanation_and_leaves_it(page: Page) -> None:
    async with served(StillOverview(CLUSTERS["busy"]())) as url:
        await show(page, url)
        await page.evaluate("document.querySelector('#waiting button').focus()")
        await press(page, "Enter", "\r")
        await page.wait_for("!!document.querySelector('dialog[open] ol li')")
        text = await page.evaluate("document.querySelector('#details-body').textContent")
        assert text.startswith("Pod default/train-7 waits")
        await press(page, "Escape")
        await page.wait_for("!document.querySelector('dialog').open")
        assert await page.evaluate("document.activeElement.dataset.ref") == "Pod default/train-7"


async def test_slash_goes_to_the_filter_which_leaves_the_nodes_that_match(page: Page) -> None:
    async with served(StillOverview(CLUSTERS["busy"]())) as url:
        await show(page, url)
        await press(page, "/", "/")
        assert await page.evaluate("document.activeElement.id") == "filter"
        for letter in "node-12":
            await press(page, letter, letter)
        await page.wait_for("document.querySelectorAll('#nodes .row:not([hidden])').length === 1")


async def press(page: Page, key: str, text: str = "") -> None:
    code = {"Enter": 13, "Escape": 27}.get(key, ord(key[0]))
    common = {"key": key, "windowsVirtualKeyCode": code}
    await page.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
    await page.call("Input.dispatchKeyEvent", type="keyUp", **common)


class OneToken:
    """The only valid token is `right`."""

    async def check(self, token: str, _namespaces: Iterable[str]) -> Visibility:
        if token != "right":
            raise NotAuthenticatedError(
                "the bearer token is not valid" if token else "a bearer token is required"
            )
        return EVERYTHING


async def test_a_visitor_signs_in_with_a_token_that_the_page_does_not_store(page: Page) -> None:
    async with served(StillOverview(CLUSTERS["busy"]()), OneToken()) as url:
        await page.look_as(*SIZES["laptop"], "light")
        await page.open(url)
        await page.wait_for("!document.querySelector('#sign-in').hidden")
        await sign_in(page, "wrong")
        await page.wait_for("document.querySelector('#sign-in-problem').textContent.includes('not valid')")
        await sign_in(page, "right")
        await page.wait_for(DRAWN)
        stored = (
            "[document.cookie, localStorage.length, sessionStorage.length, location.href.includes('right')]"
        )
        assert await page.evaluate(stored) == ["", 0, 0, False]
        page.console.clear()  # the browser reports the answers 401


async def sign_in(page: Page, token: str) -> None:
    await page.evaluate(f"document.querySelector('#token').value = '{token}'")
    await page.evaluate("document.querySelector('#sign-in').requestSubmit()")


async def test_a_page_without_its_server_says_so_and_connects_again(page: Page) -> None:
    live = StillOverview(CLUSTERS["busy"]())
    async with served(live) as url:
        await show(page, url)
    await page.wait_for("document.querySelector('#state').className === 'stale'")
    assert "Not current" in await page.evaluate("document.querySelector('#state').textContent")
    async with served(live, port=int(url.rpartition(":")[2])):
        await page.wait_for("document.querySelector('#state').className === 'live'")
        page.console.clear()  # the browser reports the refused connections


async def write_golden() -> None:
    GOLDEN.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        async with open_browser(fetch_chromium(), Path(home)) as page:
            for cluster, size, scheme in PICTURES:
                picture = await take_picture(page, cluster, size, scheme)
                (GOLDEN / f"{cluster}-{size}-{scheme}.webp").write_bytes(picture)


if __name__ == "__main__":
    asyncio.run(write_golden())
