"""The behavior that drivers can expect of a kubelet: one suite for the embedded one and the real one.

A class that derives from `KubeletSuite` gives the fixture `lab`. The driver is `fake_driver`: plain gRPC
servers.
"""

import asyncio
import json
import socket
from typing import Any

import pytest

from dradriver.kube import PODS
from dradriver.wire import health_v1
from tests.conformance.kubelet.controlled_claims import ControlledClaims
from tests.conformance.kubelet.lab import DRIVER, Lab

OTHER = "other.example.com"


class KubeletSuite(ControlledClaims):
    """Registration, prepare and unprepare, restarts, time limits, health, devices of containers."""

    # --- registration -------------------------------------------------------------------------

    async def test_a_driver_is_notified_of_its_registration(self, lab: Lab) -> None:
        async with lab.driver() as driver:
            status = await driver.registered()
            assert status.plugin_registered
            assert status.error == ""

    async def test_v1beta1_alone_is_accepted_and_used(self, lab: Lab) -> None:
        async with lab.registered(versions=("v1beta1.DRAPlugin",)) as driver:
            await lab.claim("claim")
            await lab.pod("pod", "claim")
            await lab.phase("pod", "Running")
            assert driver.prepares == [["claim"]]

    async def test_a_registration_without_services_is_rejected_with_the_reason(self, lab: Lab) -> None:
        async with lab.driver(versions=()) as driver:
            status = await driver.registered()
            assert not status.plugin_registered
            assert "empty list of supported gRPC services" in status.error

    async def test_unknown_services_are_rejected_with_both_lists(self, lab: Lab) -> None:
        async with lab.driver(versions=("v9.DRAPlugin", "1.0.0")) as driver:
            status = await driver.registered()
            assert not status.plugin_registered
            assert '["v9.DRAPlugin" "1.0.0"]' in status.error
            assert '"v1.DRAPlugin"' in status.error

    async def test_an_unknown_plugin_type_is_rejected(self, lab: Lab) -> None:
        async with lab.driver(plugin_type="Telephone") as driver:
            status = await driver.registered()
            assert not status.plugin_registered
            assert "no handler registered for plugin type: Telephone" in status.error

    async def test_a_second_instance_cannot_take_the_endpoint_of_the_first(self, lab: Lab) -> None:
        async with lab.registered() as first, lab.driver(instance="b", endpoint=str(first.socket)) as second:
            status = await second.registered()
            assert not status.plugin_registered
            assert "already registered" in status.error

    async def test_a_socket_name_with_a_leading_dot_is_ignored(self, lab: Lab) -> None:
        async with lab.driver(".hidden.example.com") as hidden, lab.registered():
            assert hidden.statuses.empty()

    async def test_a_dead_socket_does_not_block_other_registrations(self, lab: Lab) -> None:
        dead = lab.node.registry / "dead.example.com.sock"
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(dead))
        async with lab.registered():
            dead.unlink()

    async def test_a_driver_that_reconnects_is_called_without_a_new_registration(self, lab: Lab) -> None:
        async with lab.registered() as driver:
            await driver.drop()
            await driver.serve()
            await lab.claim("claim")
            await lab.pod("pod", "claim")
            await lab.phase("pod", "Running")
            assert driver.statuses.empty()

    async def test_the_newest_instance_is_called(self, lab: Lab) -> None:
        async with lab.registered() as first, lab.registered(instance="b") as second:
            await lab.claim("claim")
            await lab.pod("pod", "claim")
            await lab.phase("pod", "Running")
            assert (first.prepares, second.prepares) == ([], [["claim"]])

    async def test_the_older_instance_is_called_after_the_newest_one_ends(self, lab: Lab) -> None:
        async with lab.registered() as first:
            async with lab.registered(instance="b"):
                pass
            await lab.claim("claim")
            await lab.pod("pod", "claim")
            await lab.phase("pod", "Running")
            assert first.prepares == [["claim"]]

    # --- prepare ------------------------------------------------------------------------------

    async def test_each_driver_gets_all_its_claims_in_one_call(self, lab: Lab) -> None:
        async with lab.registered() as driver, lab.registered(OTHER) as other:
            await lab.claim("one", drivers=(DRIVER, OTHER))
            await lab.claim("two")
            await lab.pod("pod", "one", "two")
            await lab.phase("pod", "Running")
            assert driver.prepares == [["one", "two"]]
            assert other.prepares == [["one"]]

    async def test_no_container_runs_before_every_claim_is_prepared(self, lab: Lab) -> None:
        async with lab.registered() as driver:
            driver.hold.clear()
            await lab.claim("claim")
            await lab.pod("pod", "claim")
            await lab.until("prepare", lambda: _value(driver.prepares))
            pod = await lab.get_pod("pod")
            assert pod is not None
            assert pod["status"].get("phase", "Pending") == "Pending"
            driver.hold.set()
            await lab.phase("pod", "Running")

    async def test_an_error_of_the_driver_is_an_event_and_prepare_is_repeated(self, lab: Lab) -> None:
        async with lab.registered() as driver:
            driver.errors["claim"] = "card is on fire"
            await lab.claim("claim")
            await lab.pod("pod", "claim")
            message = await lab.event("pod", "FailedPrepareDynamicResources", "card is on fire")
            assert "NodePrepareResources failed for ResourceClaim claim: card is on fire" in message
            driver.errors.clear()
            await lab.phase("pod", "Running")

    async def test_an_answer_that_leaves_a_claim_out_is_an_error(self, lab: Lab) -> None:
        async with lab.registered() as driver:
            driver.skipped.add("claim")
            await lab.claim("claim")
            await lab.pod("pod", "claim")
            await lab.event(
                "pod", "FailedPrepareDynamicResources", "NodePrepareResources skipped 1 ResourceClaims"
            )

    async def test_a_call_that_takes_too_long_is_canceled_and_repeated(self, lab: Lab) -> None:
        async with lab.registered() as driver:
            driver.hold.clear()
            await lab.claim("claim")
            await lab.pod("pod", "claim")
            await lab.event("pod", "FailedPrepareDynamicResources", "DeadlineExceeded")
            driver.hold.set()
            await lab.phase("pod", "Running")

    async def test_a_pod_without_a_reservation_of_its_claim_is_rejected(self, lab: Lab) -> None:
        async with lab.registered() as driver:
            await lab.claim("claim")
            await lab.pod("pod", "claim", reserve=False)
            await lab.event("pod", "FailedPrepareDynamicResources", "is not allowed to use ResourceClaim claim")
            assert driver.prepares == []
            await lab.delete_pod("pod")
            await lab.gone("pod")
            assert driver.unprepares == []

    async def test_a_missing_driver_is_named_in_an_event_and_the_pod_can_be_deleted(self, lab: Lab) -> None:
        await lab.claim("claim", drivers=("absent.example.com",))
        await lab.pod("pod", "claim")
        await lab.event(
            "pod", "FailedPrepareDynamicResources", "DRA driver absent.example.com is not registered"
        )
        await lab.delete_pod("pod")
        await lab.gone("pod")

    async def test_a_claim_of_two_pods_is_prepared_once_and_unprepared_after_the_last(self, lab: Lab) -> None:
        async with lab.registered() as driver:
            await lab.claim("claim")
            await lab.pod("pod-1", "claim")
            await lab.phase("pod-1", "Running")
            await lab.pod("pod-2", "claim")
            await lab.phase("pod-2", "Running")
            assert driver.prepares == [["claim"]]
            await lab.delete_pod("pod-1")
            await lab.gone("pod-1")
            assert driver.unprepares == []
            await lab.delete_pod("pod-2")
            await lab.gone("pod-2")
            assert driver.unprepares == [["claim"]]

    # --- unprepare ----------------------------------------------------------------------------

    async def test_a_deleted_pod_is_unprepared_before_its_object_is_removed(self, lab: Lab) -> None:
        async with lab.registered() as driver:
            await lab.claim("claim")
            await lab.pod("pod", "claim")
            await lab.phase("pod", "Running")
            await lab.delete_pod("pod")
            await lab.gone("pod")
            assert driver.unprepares == [["claim"]]

    async def test_a_pod_that_is_deleted_by_force_is_unprepared_too(self, lab: Lab) -> None:
        async with lab.registered() as driver:
            await lab.claim("claim")
            await lab.pod("pod", "claim")
            await lab.phase("pod", "Running")
            await lab.client.delete(PODS, "pod", lab.namespace, grace_seconds=0)
            await lab.until("unprepare", lambda: _value(driver.unprepares))

    async def test_a_finished_pod_is_unprepared(self, lab: Lab) -> None:
        async with lab.registered() as driver:
            await lab.claim("claim")
            await lab.pod("pod", "claim", containers=[_container("true", claims=[{"name": "claim"}])])
            await lab.phase("pod", "Succeeded")
            assert driver.unprepares == [["claim"]]

    async def test_unprepare_is_repeated_until_it_works(self, lab: Lab) -> None:
        async with lab.registered() as driver:
            await lab.claim("claim")
            await lab.pod("pod", "claim")
            await lab.phase("pod", "Running")
            driver.unprepare_errors["claim"] = "not now"
            await lab.delete_pod("pod")
            await lab.until("unprepare", lambda: _value(driver.unprepares))
            assert await lab.get_pod("pod") is not None
            driver.unprepare_errors.clear()
            await lab.gone("pod")

    async def test_a_pod_that_is_deleted_without_its_driver_stays_until_the_driver_returns(
        self, lab: Lab
    ) -> None:
        async with lab.registered() as driver:
            await lab.claim("claim")
            await lab.pod("pod", "claim")
            await lab.phase("pod", "Running")
            await driver.stop()
            await lab.delete_pod("pod")
            await lab.until("end of the container", lambda: _container_ended(lab, "pod"))
            await driver.start()
            await lab.gone("pod")
            assert driver.unprepares == [["claim"]]

    # --- restarts -----------------------------------------------------------------------------

    async def test_a_restarted_kubelet_registers_the_driver_again(self, lab: Lab) -> None:
        async with lab.registered() as driver:
            await lab.node.stop()
            await lab.node.start()
            assert (await driver.registered()).plugin_registered

    async def test_a_restarted_driver_is_registered_again(self, lab: Lab) -> None:
        async with lab.registered() as driver:
            await driver.stop()
            await driver.start()
            assert (await driver.registered()).plugin_registered

    async def test_a_claim_is_unprepared_after_a_restart_of_the_kubelet(self, lab: Lab) -> None:
        async with lab.registered() as driver:
            await lab.claim("claim")
            await lab.pod("pod", "claim", restartPolicy="Always")
            await lab.phase("pod", "Running")
            await lab.node.stop()
            await lab.node.start()
            await lab.delete_pod("pod")
            await lab.gone("pod")
            assert driver.unprepares == [["claim"]]

    async def test_a_claim_is_unprepared_after_its_pod_was_deleted_without_the_kubelet(self, lab: Lab) -> None:
        async with lab.registered() as driver:
            await lab.claim("claim")
            await lab.pod("pod", "claim")
            await lab.phase("pod", "Running")
            await lab.node.stop()
            await lab.client.delete(PODS, "pod", lab.namespace, grace_seconds=0)
            await lab.node.start()
            await lab.until("unprepare", lambda: _value(driver.unprepares))

    # --- ResourceSlices -----------------------------------------------------------------------

    async def test_slices_of_the_node_are_deleted_when_the_kubelet_starts(self, lab: Lab) -> None:
        await lab.publish("slice-1")
        await lab.node.stop()
        await lab.node.start()
        await lab.until("removal of slices", lambda: _without(lab, "slice-1"))

    async def test_slices_of_a_driver_are_deleted_some_time_after_its_end(self, lab: Lab) -> None:
        async with lab.registered(), lab.registered(OTHER):
            await lab.publish("slice-1")
            await lab.publish("slice-2", OTHER)
            async with lab.registered("third.example.com"):
                await lab.publish("slice-3", "third.example.com")
            await lab.until("removal of slices", lambda: _without(lab, "slice-3"))
            assert {"slice-1", "slice-2"} <= await lab.slices()

    async def test_slices_of_a_registered_driver_are_deleted_after_its_connection_is_lost(
        self, lab: Lab
    ) -> None:
        async with lab.registered() as driver:
            await lab.publish("slice-1")
            await driver.drop()
            await lab.until("removal of slices", lambda: _without(lab, "slice-1"))

    async def test_slices_stay_if_the_driver_returns_in_time(self, lab: Lab) -> None:
        async with lab.registered() as driver:
            await lab.publish("slice-1")
            await driver.stop()
            await driver.start()
            await driver.registered()
            async with lab.registered("third.example.com"):
                await lab.publish("slice-3", "third.example.com")
            await lab.until("removal of another driver's slices", lambda: _without(lab, "slice-3"))
            assert "slice-1" in await lab.slices()

    # --- what reaches the container -----------------------------------------------------------

    async def test_a_container_gets_only_the_requests_that_it_names(self, lab: Lab) -> None:
        async with lab.registered(requests=("r0", "r1")):
            await lab.claim("claim", requests=("r0", "r1"))
            one = _container("env", name="one", claims=[{"name": "claim", "request": "r1"}])
            both = _container("env", name="both", claims=[{"name": "claim"}])
            none = _container("env", name="none", claims=[])
            await lab.pod("pod", "claim", containers=[one, both, none])
            await lab.phase("pod", "Succeeded")
            assert await self._claim_variables(lab, "pod", "one") == {"CLAIM_R1"}
            assert await self._claim_variables(lab, "pod", "both") == {"CLAIM_R0", "CLAIM_R1"}
            assert await self._claim_variables(lab, "pod", "none") == set()

    async def test_device_metadata_is_mounted(self, lab: Lab) -> None:
        async with lab.driver() as driver:
            path = driver.data / "metadata.json"
            await asyncio.to_thread(path.write_text, json.dumps({"kind": "DeviceMetadata"}))
            inside = "/var/run/kubernetes.io/dra-device-attributes/claim.json"
            mount = {"hostPath": str(path), "containerPath": inside, "options": ["ro", "bind"]}
            driver.device_edits = {"mounts": [mount]}
            await driver.registered()
            await lab.claim("claim")
            await lab.pod("pod", "claim", containers=[_container(f"cat {inside}", claims=[{"name": "claim"}])])
            await lab.phase("pod", "Succeeded")
            assert '"DeviceMetadata"' in await self.logs(lab, "pod", "main")

    async def test_a_device_node_is_in_its_container_alone(self, lab: Lab) -> None:
        async with lab.registered() as driver:
            driver.device_edits = {"deviceNodes": [{"path": "/dev/card7", "hostPath": "/dev/full"}]}
            await lab.claim("claim")
            script = "stat -c '%F %t:%T' /dev/card7 || true"
            mine = _container(script, name="mine", claims=[{"name": "claim"}])
            other = _container(script, name="other", claims=[])
            await lab.pod("pod", "claim", containers=[mine, other])
            await lab.phase("pod", "Succeeded")
            assert "character special file 1:7" in await self.logs(lab, "pod", "mine")
            assert "character special file" not in await self.logs(lab, "pod", "other")

    async def logs(self, lab: Lab, pod: str, container: str) -> str:
        """Return the log of the container; the class that gives `lab` implements it."""
        raise NotImplementedError

    async def _claim_variables(self, lab: Lab, pod: str, container: str) -> set[str]:
        text = await self.logs(lab, pod, container)
        return {line.partition("=")[0] for line in text.splitlines() if line.startswith("CLAIM_")}

    # --- health -------------------------------------------------------------------------------

    @pytest.mark.parametrize("service", ["v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"])
    async def test_health_shows_in_the_container_status_and_changes(self, lab: Lab, service: str) -> None:
        async with lab.registered(versions=("v1.DRAPlugin", service)) as driver:
            driver.health.put_nowait(_report("HEALTHY"))
            await lab.claim("claim")
            await lab.pod("pod", "claim")
            await lab.phase("pod", "Running")
            await lab.until("healthy device", lambda: _health(lab, "pod", "Healthy"))
            driver.health.put_nowait(_report("UNHEALTHY"))
            await lab.until("unhealthy device", lambda: _health(lab, "pod", "Unhealthy"))

    async def test_a_driver_without_health_is_called_once(self, lab: Lab) -> None:
        async with lab.registered(
            versions=("v1.DRAPlugin", "v1.DRAResourceHealth"), health_supported=False
        ) as driver:
            await lab.claim("claim")
            await lab.pod("pod", "claim")
            await lab.phase("pod", "Running")
            await lab.until("unknown health", lambda: _health(lab, "pod", "Unknown"))
            assert driver.health_calls == 1


def _container(script: str, *, name: str = "main", claims: list[dict[str, str]]) -> dict[str, Any]:
    return {
        "name": name,
        "image": "busybox",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
        "resources": {"claims": claims},
    }


def _report(health: str) -> health_v1.NodeWatchResourcesResponse:
    device = health_v1.DeviceIdentifier(pool_name="pool", device_name="device-r0")
    return health_v1.NodeWatchResourcesResponse(
        devices=[health_v1.DeviceHealth(device=device, health=health, health_check_timeout_seconds=600)]
    )


async def _value(calls: list[list[str]]) -> bool:
    return bool(calls)


async def _without(lab: Lab, name: str) -> bool:
    return name not in await lab.slices()


async def _container_ended(lab: Lab, name: str) -> bool:
    pod = await lab.get_pod(name)
    assert pod is not None
    return "terminated" in pod["status"]["containerStatuses"][0]["state"]


async def _health(lab: Lab, name: str, health: str) -> bool:
    pod = await lab.get_pod(name)
    statuses = pod["status"]["containerStatuses"][0].get("allocatedResourcesStatus", []) if pod else []
    return [(s["name"], [r["health"] for r in s["resources"]]) for s in statuses] == [("claim:claim", [health])]
