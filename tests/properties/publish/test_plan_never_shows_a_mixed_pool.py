"""Laws of the plan: each intermediate state is the old pool, an incomplete or the wanted one."""

from dataclasses import dataclass, field

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from dradriver.model.core.meta import ObjectMeta, OwnerReference
from dradriver.model.resource.device import Device, Taint
from dradriver.model.resource.slices import PoolReference, ResourceSlice, ResourceSliceSpec
from dradriver.publish.plan import Action, Create, Delete, Update, plan

OWNER = OwnerReference(api_version="v1", kind="Node", name="node", uid="u", controller=True)
DRIVER = "d.example.com"


def spec(content: int, generation: int, count: int, node: str | None = "node") -> ResourceSliceSpec:
    return ResourceSliceSpec(
        driver=DRIVER,
        pool=PoolReference(name="p", generation=generation, resource_slice_count=count),
        node_name=node,
        all_nodes=None if node else True,
        devices=[Device(f"d-{content}", taints=[Taint(key="k", effect="None")] if content % 2 else [])],
    )


@dataclass
class Server:
    """The slices of one pool, as a reader sees them."""

    slices: dict[str, ResourceSlice] = field(default_factory=dict)
    clock: int = 100

    def execute(self, action: Action) -> None:
        self.clock += 1
        match action:
            case Create(new):
                meta = msgspec.structs.replace(
                    new.metadata,
                    name=f"{new.metadata.generate_name}{self.clock}",
                    uid=f"uid-{self.clock}",
                    resource_version=str(self.clock),
                )
                self.slices[meta.name] = msgspec.structs.replace(new, metadata=meta)
            case Update(old, new):
                stored = self.slices[old.metadata.name]
                assert stored.metadata.resource_version == new.metadata.resource_version
                assert stored.metadata.uid == new.metadata.uid
                assert stored.spec.node_name == new.spec.node_name
                meta = msgspec.structs.replace(new.metadata, resource_version=str(self.clock))
                self.slices[meta.name] = msgspec.structs.replace(new, metadata=meta)
            case Delete(old):
                assert self.slices.pop(old.metadata.name) == old

    def devices_of_reader(self) -> list[str] | None:
        """Return the devices that a reader sees by Kubernetes' rule, None while the pool is incomplete."""
        newest = max((s.spec.pool.generation for s in self.slices.values()), default=0)
        current = [s for s in self.slices.values() if s.spec.pool.generation == newest]
        if not current or len(current) != current[0].spec.pool.resource_slice_count:
            return None
        return sorted(device.name for item in current for device in item.spec.devices)


@st.composite
def servers(draw: st.DrawFn) -> Server:
    """Draw any state: interrupted plans, slices of others, duplicates, another node selection."""
    server = Server()
    for number in range(draw(st.integers(0, 6))):
        prefix = draw(st.sampled_from(["00000", "00001", "00002", "00003", "00009", "zzz", "0"]))
        name = f"{prefix}-{DRIVER}-node-{number}"
        owners = draw(st.sampled_from([[OWNER], [], [msgspec.structs.replace(OWNER, uid="old")]]))
        server.slices[name] = ResourceSlice(
            metadata=ObjectMeta(
                name=name, uid=f"uid-{number}", resource_version=str(number + 1), owner_references=owners
            ),
            spec=spec(
                draw(st.integers(0, 3)),
                draw(st.integers(1, 3)),
                draw(st.integers(1, 4)),
                draw(st.sampled_from(["node", "node", "node", None])),
            ),
        )
    return server


def wishes() -> st.SearchStrategy[list[ResourceSliceSpec]]:
    contents = st.lists(st.integers(0, 4), min_size=1, max_size=4)
    return contents.map(lambda items: [spec(content, 0, len(items)) for content in items])


def check(server: Server, wanted: list[ResourceSliceSpec], generation: int = 0) -> None:
    """Execute the plan and read the pool after every step."""
    before = server.devices_of_reader()
    goal = sorted(device.name for item in wanted for device in item.devices)
    started = False
    for action in plan(wanted, server.slices.values(), owner=OWNER, generation=generation):
        server.execute(action)
        shown = server.devices_of_reader()
        started = started or shown != before
        assert shown is None or shown == goal or (shown == before and not started)
    assert server.devices_of_reader() == goal


@settings(max_examples=150)
@given(servers(), wishes(), st.integers(0, 4))
def test_every_step_shows_the_old_pool_an_incomplete_one_or_the_wanted_one(
    server: Server, wanted: list[ResourceSliceSpec], generation: int
) -> None:
    check(server, wanted, generation)


@settings(max_examples=150)
@given(servers(), wishes())
def test_slices_of_others_never_count(strangers: Server, wanted: list[ResourceSliceSpec]) -> None:
    server = Server(clock=100)
    for action in plan(wanted, [], owner=OWNER):
        server.execute(action)
    own = server.slices
    server.slices = {**strangers.slices, **own}
    check(server, wanted)


@settings(max_examples=150)
@given(servers(), wishes(), st.integers(0, 4))
def test_a_finished_plan_leaves_nothing_to_do(
    server: Server, wanted: list[ResourceSliceSpec], generation: int
) -> None:
    for action in plan(wanted, server.slices.values(), owner=OWNER, generation=generation):
        server.execute(action)
    assert plan(wanted, server.slices.values(), owner=OWNER, generation=generation) == []
    names = sorted(server.slices)
    assert [server.slices[name].spec.devices for name in names] == [item.devices for item in wanted]
    assert all(OWNER in item.metadata.owner_references for item in server.slices.values())
    assert len({item.spec.pool.generation for item in server.slices.values()}) == 1


@settings(max_examples=150)
@given(servers(), wishes(), wishes(), st.integers(0, 8))
def test_the_plan_after_an_interrupted_one_obeys_the_same_law(
    server: Server, first: list[ResourceSliceSpec], second: list[ResourceSliceSpec], steps: int
) -> None:
    for action in plan(first, server.slices.values(), owner=OWNER)[:steps]:
        server.execute(action)
    check(server, second)


@given(wishes(), st.data())
def test_only_slices_that_others_deleted_are_written_again(
    wanted: list[ResourceSliceSpec], data: st.DataObject
) -> None:
    server = Server()
    for action in plan(wanted, [], owner=OWNER):
        server.execute(action)
    kept = data.draw(st.sets(st.sampled_from(sorted(server.slices)), min_size=1))
    lost = len(server.slices) - len(kept)
    server.slices = {name: server.slices[name] for name in kept}
    actions = plan(wanted, server.slices.values(), owner=OWNER)
    assert [type(action) for action in actions] == [Create] * lost
