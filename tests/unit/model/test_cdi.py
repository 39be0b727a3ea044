"""CDI specs are written at the lowest version that their content needs."""

import pytest

from dradriver.model.cdi import (
    CdiDevice,
    CdiSpec,
    ContainerEdits,
    DeviceNode,
    Hook,
    Mount,
    add_bind_options,
    cdi_problems,
    minimum_version,
)


def spec(edits: ContainerEdits, *, kind: str = "example.com/claim", name: str = "device") -> CdiSpec:
    return CdiSpec(kind=kind, devices=[CdiDevice(name, edits)])


@pytest.mark.parametrize(
    ("given", "version"),
    [
        (spec(ContainerEdits({"A": "1"}, [DeviceNode("/dev/loop0")])), "0.3.0"),
        (spec(ContainerEdits(mounts=[Mount("/a", "/a", type="bind")])), "0.4.0"),
        (spec(ContainerEdits(device_nodes=[DeviceNode("/dev/a", "/dev/b")])), "0.5.0"),
        (spec(ContainerEdits({"A": "1"}), name="0-loop"), "0.5.0"),
        (spec(ContainerEdits({"A": "1"}), kind="example.com/claim.v1"), "0.6.0"),
        (spec(ContainerEdits(additional_gids=[44])), "0.7.0"),
    ],
)
def test_the_lowest_sufficient_version_is_used(given: CdiSpec, version: str) -> None:
    assert minimum_version(given) == version
    assert given.at_minimum_version().cdi_version == version


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (spec(ContainerEdits(), kind="example.com"), "kind"),
        (spec(ContainerEdits(), kind="example.com/c"), "kind"),
        (spec(ContainerEdits(), name="a b"), "devices[0].name"),
        (CdiSpec(kind="example.com/claim"), "devices"),
        (spec(ContainerEdits(["A"])), "devices[0].containerEdits.env[0]"),
        (
            spec(ContainerEdits(device_nodes=[DeviceNode("dev/a")])),
            "devices[0].containerEdits.deviceNodes[0].path",
        ),
        (
            spec(ContainerEdits(device_nodes=[DeviceNode("/dev/a", permissions="rx")])),
            "devices[0].containerEdits.deviceNodes[0].permissions",
        ),
        (spec(ContainerEdits(mounts=[Mount("", "/a")])), "devices[0].containerEdits.mounts[0].hostPath"),
        (
            spec(ContainerEdits(hooks=[Hook("startup", "/bin/x")])),
            "devices[0].containerEdits.hooks[0].hookName",
        ),
    ],
)
def test_an_invalid_spec_is_reported_with_its_field(given: CdiSpec, path: str) -> None:
    assert path in {problem.path for problem in cdi_problems(given)}


@pytest.mark.parametrize(
    ("mount", "options"),
    [
        (Mount("/a", "/b"), ["rbind"]),
        (Mount("/a", "/b", ["ro"]), ["rbind", "ro"]),
        (Mount("/a", "/b", ["ro", "bind"]), ["ro", "bind"]),
        (Mount("/a", "/b", type="bind"), ["rbind"]),
        (Mount("tmpfs", "/b", ["size=1m"], "tmpfs"), ["size=1m"]),
    ],
)
def test_a_mount_without_a_type_is_a_bind_mount(mount: Mount, options: list[str]) -> None:
    edits = add_bind_options(ContainerEdits({"A": "1"}, mounts=[mount], additional_gids=[4]))
    assert edits.mounts == (Mount(mount.host_path, mount.container_path, options, mount.type),)
    assert (edits.env, edits.additional_gids) == (("A=1",), (4,))
    assert list(cdi_problems(spec(edits))) == []


def test_edits_are_combined_in_order() -> None:
    both = ContainerEdits({"A": "1"}) | ContainerEdits({"A": "2"}, [DeviceNode("/dev/a")])
    assert both.env == ("A=1", "A=2")
    assert both.device_nodes == (DeviceNode("/dev/a"),)
