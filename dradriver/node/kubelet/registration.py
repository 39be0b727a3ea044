"""Plugin registration, v1.

The kubelet finds the socket, requests the driver's info, and accepts or rejects the driver.
"""

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
"""The kubelet uses the first version that it supports."""
HEALTH_VERSIONS: Final = ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")


class Registration:
    """Answers the kubelet's plugin watcher, and stores whether the kubelet has accepted the driver.

    Args:
        driver: the driver's name.
        endpoint: the path of the service socket, to which the kubelet connects.
        registry_dir: the folder of the registration socket, for messages.
        versions: the offered services with their versions, in order of preference.
        on_status: called each time the kubelet accepts (True) or rejects (False) the driver.
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
        self._is_info_sent = False
        self._refusal = ""
        self._since = time.monotonic()
        self.accepted = asyncio.Event()
        """Set while the driver is registered: the kubelet has accepted it and has not rejected it since."""

    def methods(self) -> dict[str, Method]:
        """Return the methods for the registration socket."""
        return methods_of(registration_v1.DESCRIPTOR.services_by_name["Registration"], self)

    async def GetInfo(  # noqa: N802 - the API's name
        self,
        request: registration_v1.InfoRequest,  # noqa: ARG002
    ) -> registration_v1.PluginInfo:
        """Return the driver's name, socket and versions."""
        self._is_info_sent = True
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
        """Store whether the kubelet accepts the driver; a restarted kubelet calls this method again."""
        self._is_info_sent = True
        if request.plugin_registered:
            self._refusal = ""
            self.accepted.set()
            _log.info("the kubelet has registered driver %s", self._driver)
        else:
            before, self._refusal = self._refusal, request.error or "no reason given"
            self.accepted.clear()
            if self._refusal != before:  # the kubelet retries again and again
                _log.error("the kubelet rejected driver %s: %s", self._driver, self._refusal)
        self._on_status(request.plugin_registered)
        return registration_v1.RegistrationStatusResponse()

    async def wait(self, timeout: float) -> None:
        """Wait until the kubelet has accepted the driver.

        Raises:
            RegistrationError: the kubelet has not accepted the driver within `timeout` seconds. The message
                contains the kubelet's reason, or a likely cause.
        """
        try:
            async with asyncio.timeout(timeout):
                await self.accepted.wait()
        except TimeoutError:
            raise RegistrationError(self._reason(timeout)) from None

    @property
    def missing(self) -> str:
        """Return why the driver is not registered now; empty if it is registered."""
        return "" if self.accepted.is_set() else self._reason(round(time.monotonic() - self._since))

    def _reason(self, timeout: float) -> str:
        if self._refusal:
            return f"the kubelet rejected driver {self._driver}: {self._refusal}"
        if self._is_info_sent:
            return (
                f"the kubelet has read the info of driver {self._driver}, but has not confirmed "
                f"the registration within {timeout:g} s: can it reach {self._endpoint}?"
            )
        return (
            f"no kubelet has opened a socket in {self._registry_dir} for {timeout:g} s: is a kubelet with DRA "
            "running here, and is this the plugins_registry below its root directory (--registry-dir)? If so, "
            "the kubelet may use a longer path to it, too long for a socket: configure that path"
        )
