"""The loop of a `BindingDriver`: for each claim, what `todo` says, until nothing is left.

Each claim has a task of its own while there is something to do for it: one that takes minutes holds up no
other. Dies anywhere: what was begun stands in the claims, and the next process goes on from there.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable

from dradriver.conditions.attaching import Attacher, Keeper
from dradriver.conditions.claim_tasks import RETRY_SECONDS, ClaimTasks
from dradriver.conditions.record import Records
from dradriver.conditions.todo import Todo, attachments_of, recorded, todo
from dradriver.driver import Attachment, BindingDriver
from dradriver.errors import DraError
from dradriver.kube import CLAIMS, Cache, ChangeKind, Client
from dradriver.kube.backoff import Backoff
from dradriver.model.claim import DeviceId, ResourceClaim
from dradriver.model.device import Device
from dradriver.node.calls import Calls

__all__ = ["BindingController"]

_log = logging.getLogger(__name__)


class BindingController:
    """Attaches and detaches the devices of a driver: `await run()` until cancelled.

    Args:
        driver: the author's.
        client: the API server; it needs `patch` on claims and on their status (`arbitrary-node`).
        calls: calls the driver.
        device: gives a device as `discover()` last returned it.
        keeper: keeps devices that failed from new claims.
        on_error: is told of each failure, with the name of the method.
    """

    def __init__(
        self,
        driver: BindingDriver,
        client: Client,
        *,
        calls: Calls,
        device: Callable[[str, str], Device | None],
        keeper: Keeper,
        on_error: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._driver = driver
        self._calls = calls
        self._on_error = on_error
        self._claims = Cache(client, CLAIMS, ResourceClaim)
        self._records = Records(client, driver.name, self._claims.apply_written, self._claims.apply_deleted)
        self._attacher = Attacher(
            *(driver, client, self._claims), calls=calls, device=device, keeper=keeper, on_error=on_error
        )
        self._holders: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
        self._tasks = ClaimTasks(self._claims.items, lambda claim: self._todo(claim) != Todo(), self._step)
        self._looked = False
        self._claims.subscribe(self._changed)

    async def run(self) -> None:
        """Works until it is cancelled. What is being attached then is taken up by the next process."""
        async with self._claims:
            try:
                await self._claims.synced()
                await self._look_at_the_hardware()
                for ref in list(self._claims.items):
                    self._tasks.serve(ref)
                await asyncio.get_running_loop().create_future()
            finally:
                self._looked = False  # nothing new is begun
                await self._tasks.end()

    async def _look_at_the_hardware(self) -> None:
        backoff = Backoff(*RETRY_SECONDS)
        while True:
            try:
                await self._detach_strangers()
            except DraError as error:
                _log.warning("looking for what is attached: %s", error)
                self._on_error("attachments")
                await asyncio.sleep(backoff.next())
            else:
                self._looked = True
                return

    def _changed(self, _kind: ChangeKind, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        before = self._hold(old, held=False)
        after = self._hold(new, held=True)
        claim = new or old
        if claim is None:
            return
        if self._looked:
            self._tasks.serve(claim.ref)
        if before - after:  # others may wait for what this one let go of
            self._tasks.nudge()

    def _hold(self, claim: ResourceClaim | None, *, held: bool) -> set[tuple[str, str, str]]:
        keys = {_key(each) for each in recorded(claim, self._driver.name)} if claim is not None else set()
        for key in keys:
            users = self._holders[key]
            (users.add if held else users.discard)(claim.metadata.uid if claim else "")
            if not users:
                del self._holders[key]
        return keys

    def _todo(self, claim: ResourceClaim) -> Todo:
        return todo(claim, self._driver.name, self._driver.own_conditions)

    async def _step(self, claim: ResourceClaim, news: asyncio.Event) -> bool:
        """Does the next thing for the claim; whether there was any."""
        due = self._todo(claim)
        if due.detach:
            await _all(self._detach(claim, each) for each in due.detach)
            await self._records.remove(claim, due.detach)
        elif due.record:
            if any(self._others(claim, each) for each in due.record):
                # What was attached for another claim is detached first; then this one is decided on anew.
                await news.wait()
            else:
                await self._records.add(claim, due.record)
        elif due.let_go:
            await self._records.remove(claim, ())
        elif due.attach:
            await self._attacher.attach_all(claim, due.attach, news)
        else:
            return False
        return True

    def _others(self, claim: ResourceClaim, attachment: Attachment) -> set[str]:
        """The other claims that have the device in their records, by UID."""
        return self._holders.get(_key(attachment), set()) - {claim.metadata.uid}

    async def _detach(self, claim: ResourceClaim, attachment: Attachment) -> None:
        if self._others(claim, attachment):
            # Only one claim's record has a device at a time; a second one was written by somebody else.
            _log.warning("claim %s: its record names device %s of another claim", claim.ref, attachment.device)
            return
        try:
            await self._calls.call(self._driver.detach, attachment, about=f" of claim {claim.ref}")
        except DraError:
            self._on_error("detach")
            raise
        device = DeviceId(self._driver.name, attachment.pool, attachment.device)
        _log.info("detached device %s of claim %s", device, claim.ref)

    async def _detach_strangers(self) -> None:
        """What the hardware knows and no claim speaks of, because its record was lost, is detached."""
        name = self._driver.name
        known = await self._calls.call(self._driver.attachments)
        spoken_of = {
            (each.claim_uid, *_key(each))
            for claim in self._claims.items.values()
            for each in (*recorded(claim, name), *attachments_of(claim, name))
        }
        for attachment in sorted(known or ()):
            if (attachment.claim_uid, *_key(attachment)) not in spoken_of:
                await self._calls.call(self._driver.detach, attachment)


def _key(attachment: Attachment) -> tuple[str, str, str]:
    return attachment.pool, attachment.device, attachment.share_id


async def _all(work: Iterable[Awaitable[None]]) -> None:
    """All to their end, then the first error."""
    for outcome in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
