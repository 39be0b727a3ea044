"""Laws of extended resources (KEP-5004): the requests of any pod, and the devices of each of its containers."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dradriver.control.extended import requested_amounts
from dradriver.control.extended.requests import build_requests, is_sidecar
from dradriver.model.core.workload import Container, ContainerResources, Pod, PodSpec
from dradriver.model.names import dns_label
from dradriver.model.quantity import NANO, Quantity

RESOURCES = ("example.com/a", "example.com/b", "cpu")
SERVED = {name: f"class-{name[-1]}" for name in RESOURCES if name != "cpu"}

amounts = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 4).map(Quantity))
containers = st.builds(
    Container,
    name=st.just("c"),
    restart_policy=st.sampled_from(["", "", "Always"]),
    resources=amounts.map(lambda each: ContainerResources(requests=each)),
)


def named(kind: str, listed: list[Container]) -> list[Container]:
    return [replace(each, name=f"{kind}-{number}") for number, each in enumerate(listed)]


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    init = named("init", draw(st.lists(containers, max_size=5)))
    main = [replace(each, restart_policy="") for each in draw(st.lists(containers, min_size=1, max_size=4))]
    return Pod(spec=PodSpec(init_containers=init, containers=named("main", main)))


def asked(container: Container, resource: str) -> int:
    return container.resources.requests.get(resource, Quantity(0)).nano // NANO


@given(pods())
def test_a_pod_requests_as_many_devices_as_it_uses_at_the_same_time(pod: Pod) -> None:
    """No more: init containers use the devices of their pod, or one request serves all of them."""
    found: Counter[str] = Counter()
    for request in build_requests(pod, SERVED).requests:
        assert request.exactly is not None
        found[request.exactly.device_class_name] += request.exactly.count or 0
    assert found == {SERVED[name]: amount for name, amount in requested_amounts(pod).items()}


@given(pods())
def test_each_container_gets_at_least_its_request_and_others_nothing(pod: Pod) -> None:
    found = build_requests(pod, SERVED)
    counts = {r.name: (r.exactly.count or 0) if r.exactly else 0 for r in found.requests}
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        for resource in SERVED:
            mine = {
                m.request_name
                for m in found.mappings
                if (m.container_name, m.resource_name) == (container.name, resource)
            }
            wanted = asked(container, resource)
            assert sum(counts[name] for name in mine) >= wanted
            assert bool(mine) == bool(wanted)


@given(pods())
def test_containers_that_run_side_by_side_share_no_request(pod: Pod) -> None:
    together = [c.name for c in pod.spec.init_containers if is_sidecar(c)] + [
        c.name for c in pod.spec.containers
    ]
    users = Counter(
        m.request_name for m in build_requests(pod, SERVED).mappings if m.container_name in together
    )
    assert all(number == 1 for number in users.values())


@given(pods())
def test_names_of_requests_are_labels_and_unique(pod: Pod) -> None:
    names = [request.name for request in build_requests(pod, SERVED).requests]
    assert len(set(names)) == len(names)
    assert not any(dns_label(name) for name in names)
