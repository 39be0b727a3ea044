"""The kubelet's plugin registration, v1: the kubelet finds our socket, asks for our identity, and decides."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from dradriver.node.errors import RegistrationError
from dradriver.node.kubelet.server import Method, methods_of
from dradriver.wire import registration_v1

__all__ = ["HEALTH_VERSIONS", "PLUGIN_VERSIONS", "Registration"]

_log = logging.getLogger(__name__)

PLUGIN_VERSIONS: Final = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
"""The kubelet uses the first one that it supports."""
HEALTH_VERSIONS: Final = ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")


class Registration:
    """Answers the kubelet's plugin watcher, and stores its decision.

    Args:
        driver: the driver's name.
        endpoint: the service socket, a path that the kubelet can dial.
        registry_dir: the folder of the registration socket, for messages.
        versions: the offered services, in order of preference.
        on_status: called with each decision of the kubelet.
    """

    def __init__(
        self,
        driver: str,
        endpoint: Path,
        registry_dir: Path,
        versions: Sequence[str],
        on_status: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self._driver = driver
        self._endpoint = endpoint
        self._registry_dir = registry_dir
        self._versions = tuple(versions)
        self._on_status = on_status
        self._asked = False
        self._refusal = ""
        self._since = time.monotonic()
        self.accepted = asyncio.Event()
        """Set while the kubelet's last decision was to accept."""

    def methods(self) -> dict[str, Method]:
        """Return the methods for the registration socket."""
        return methods_of(registration_v1.DESCRIPTOR.services_by_name["Registration"], self)

    async def GetInfo(  # noqa: N802 - the API's name
        self,
        request: registration_v1.InfoRequest,  # noqa: ARG002
    ) -> registration_v1.PluginInfo:
        """Return the driver's name, socket and versions."""
        self._asked = True
        return registration_v1.PluginInfo(
            type="DRAPlugin",
            name=self._driver,
            endpoint=str(self._endpoint),
            supported_versions=self._versions,
        )

    async def NotifyRegistrationStatus(  # noqa: N802 - the API's name
        self,
        request: registration_v1.RegistrationStatus,
    ) -> registration_v1.RegistrationStatusResponse:
        """Store the kubelet's decision; after a restart the kubelet decides again."""
        self._asked = True
        if request.plugin_registered:
            self._refusal = ""
            self.accepted.set()
            _log.info("the kubelet has registered driver %s", self._driver)
        else:
            before, self._refusal = self._refusal, request.error or "no reason given"
            self.accepted.clear()
            if self._refusal != before:  # the kubelet retries again and again
                _log.error("the kubelet refused driver %s: %s", self._driver, self._refusal)
        self._on_status(request.plugin_registered)
        return registration_v1.RegistrationStatusResponse()

    async def wait(self, timeout: float) -> None:
        """Wait until the kubelet has accepted the driver.

        Raises:
            RegistrationError: not accepted within `timeout` seconds. The message has the kubelet's reason, or a
                hint where to look.
        """
        try:
            async with asyncio.timeout(timeout):
                await self.accepted.wait()
        except TimeoutError:
            raise RegistrationError(self._reason(timeout)) from None

    @property
    def missing(self) -> str:
        """Return why the driver is not registered now; empty if it is."""
        return "" if self.accepted.is_set() else self._reason(round(time.monotonic() - self._since))

    def _reason(self, timeout: float) -> str:
        if self._refusal:
            return f"the kubelet refused driver {self._driver}: {self._refusal}"
        if self._asked:
            return (
                f"the kubelet asked driver {self._driver} who it is, but has not confirmed "
                f"the registration within {timeout:g} s: can it reach {self._endpoint}?"
            )
        return (
            f"nobody looked into {self._registry_dir} for {timeout:g} s: is a kubelet with DRA running "
            "here, and is this the plugins_registry below its root directory (--registry-dir)? If so, the "
            "kubelet may know it by a longer path, too long for a socket: give it by that path"
        )
