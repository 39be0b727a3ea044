"""A runtime's message about a missing mount source names no driver. The kubelet adds the CDI devices."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dradriver.cluster.kubelet.pods.container_runner import ContainerRunner
from dradriver.cluster.kubelet.pods.pod_types import NodePod
from dradriver.cluster.runtime import ContainerStartError


class Refusing:
    """A runtime whose containers never start."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    async def start(self, _spec: object) -> None:
        raise ContainerStartError(self.reason, "no such file")


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("RunContainerError", "no such file (with the CDI devices led.example.com/claim=1, b, ...)"),
        ("ErrImagePull", "no such file"),
    ],
)
async def test_the_message_names_the_first_cdi_devices(tmp_path: Path, reason: str, message: str) -> None:
    body: dict[str, Any] = {
        "metadata": {"name": "pod", "namespace": "default", "uid": "u"},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    }
    pod = msgspec.convert(body, NodePod)
    runner = ContainerRunner(
        pod,
        tmp_path / "pod",
        Refusing(reason),  # type: ignore[arg-type]
        owner="o",
        cdi_folder=tmp_path,
        restart_delay=1.0,
        on_change=lambda: None,
    )
    with pytest.raises(ContainerStartError, match="no such file") as caught:
        await runner.start(pod.spec.containers[0], ("led.example.com/claim=1", "b", "c"))
    assert str(caught.value) == message
