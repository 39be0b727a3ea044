"""Restart policies, init containers and sidecars, and their status."""

from typing import Any

from tests.conformance.kubelet.embedded import EmbeddedNode
from tests.conformance.kubelet.lab import Lab


def container(script: str, name: str = "main", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "busybox", "command": ["sh", "-c", script], **more}


async def test_a_failed_container_that_is_never_restarted_fails_its_pod(lab: Lab) -> None:
    await lab.pod("pod", containers=[container("exit 3")], restartPolicy="Never")
    pod = await lab.phase("pod", "Failed")
    [status] = pod["status"]["containerStatuses"]
    assert status["state"]["terminated"]["exitCode"] == 3
    assert status["state"]["terminated"]["reason"] == "Error"
    assert status["restartCount"] == 0


async def test_on_failure_restarts_until_success(lab: Lab) -> None:
    node = lab.node
    assert isinstance(node, EmbeddedNode)
    mark = node.cdi.parent / "mark"
    script = f"test -e {mark} && exit 0; touch {mark}; exit 1"
    await lab.pod("pod", containers=[container(script)], restartPolicy="OnFailure")
    pod = await lab.phase("pod", "Succeeded")
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 1


async def test_a_container_that_fails_repeatedly_backs_off(lab: Lab) -> None:
    await lab.pod("pod", containers=[container("exit 1")], restartPolicy="Always")

    async def backs_off() -> bool:
        pod = await lab.get_pod("pod")
        [status] = pod["status"].get("containerStatuses") or [{}] if pod else [{}]
        waiting = status.get("state", {}).get("waiting", {})
        return waiting.get("reason") == "CrashLoopBackOff" and "terminated" in status["lastState"]

    await lab.until("back-off", backs_off)


async def test_init_containers_run_one_after_the_other_before_the_others(lab: Lab) -> None:
    assert isinstance(lab.node, EmbeddedNode)
    trace = lab.node.cdi.parent / "trace"
    await lab.pod(
        "pod",
        initContainers=[container(f"echo one >> {trace}", "one"), container(f"echo two >> {trace}", "two")],
        containers=[container(f"cat {trace}")],
    )
    pod = await lab.phase("pod", "Succeeded")
    assert await lab.node.logs("pod") == "one\ntwo\n"
    assert [each["ready"] for each in pod["status"]["initContainerStatuses"]] == [True, True]


async def test_a_failed_init_container_fails_a_pod_that_is_never_restarted(lab: Lab) -> None:
    await lab.pod("pod", initContainers=[container("exit 1", "init")], containers=[container("true")])
    pod = await lab.phase("pod", "Failed")
    assert "waiting" in pod["status"]["containerStatuses"][0]["state"]


async def test_a_sidecar_ends_with_the_others(lab: Lab) -> None:
    sidecar = container("trap 'exit 0' TERM; sleep infinity & wait", "sidecar", restartPolicy="Always")
    await lab.pod("pod", initContainers=[sidecar], containers=[container("true")])
    await lab.phase("pod", "Succeeded")


async def test_a_running_pod_has_the_ready_conditions(lab: Lab) -> None:
    await lab.pod("pod")
    pod = await lab.phase("pod", "Running")
    conditions = {each["type"]: each["status"] for each in pod["status"]["conditions"]}
    assert conditions["Ready"] == conditions["ContainersReady"] == conditions["Initialized"] == "True"
    assert conditions["PodScheduled"] == "True"
    assert not any("reason" in each or "message" in each for each in pod["status"]["conditions"])
    [status] = pod["status"]["containerStatuses"]
    assert status["ready"]
    assert status["containerID"].startswith("process://")


async def test_a_missing_program_is_in_status_and_event(lab: Lab) -> None:
    await lab.pod("pod", containers=[{"name": "main", "image": "x", "command": ["no-such-program"]}])
    await lab.event("pod", "Failed", "no-such-program")

    async def failed_to_start() -> bool:
        pod = await lab.get_pod("pod")
        statuses = pod["status"].get("containerStatuses", []) if pod else []
        return [each["state"]["waiting"]["reason"] for each in statuses] == ["RunContainerError"]

    await lab.until("reason", failed_to_start)


async def test_variables_in_commands_are_expanded(lab: Lab) -> None:
    assert isinstance(lab.node, EmbeddedNode)
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)2"}]
    main = {"name": "main", "image": "x", "command": ["echo"], "args": ["$(B)", "$$(B)", "$(C)"], "env": env}
    await lab.pod("pod", containers=[main])
    await lab.phase("pod", "Succeeded")
    assert await lab.node.logs("pod") == "12 $(B) $(C)\n"


async def test_a_finished_job_is_not_repeated_after_a_restart(lab: Lab) -> None:
    assert isinstance(lab.node, EmbeddedNode)
    trace = lab.node.cdi.parent / "trace"
    await lab.pod("pod", containers=[container(f"echo run >> {trace}")])
    await lab.phase("pod", "Succeeded")
    await lab.node.stop()
    await lab.node.start()
    await lab.pod("later", containers=[container("true")])
    await lab.phase("later", "Succeeded")
    assert trace.read_text() == "run\n"


async def test_a_pod_that_ran_while_the_kubelet_was_killed_runs_again(lab: Lab) -> None:
    await lab.pod("pod", restartPolicy="Always")
    await lab.phase("pod", "Running")
    await lab.node.stop()
    await lab.node.start()

    async def again() -> bool:
        pod = await lab.get_pod("pod")
        [status] = pod["status"]["containerStatuses"] if pod else [{}]
        return status["restartCount"] == 1 and "running" in status["state"]

    await lab.until("second run", again)


async def test_a_pod_that_is_never_restarted_fails_when_its_container_is_lost(lab: Lab) -> None:
    await lab.pod("pod", restartPolicy="Never")
    await lab.phase("pod", "Running")
    await lab.node.stop()
    await lab.node.start()
    pod = await lab.phase("pod", "Failed")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("ContainerStatusUnknown", 137)
