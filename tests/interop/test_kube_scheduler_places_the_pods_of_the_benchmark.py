"""kube-scheduler's plugin, as the allocator's benchmark drives it, places the pods that ours places."""

from collections.abc import Callable

import pytest

from benchmarks.allocator.placing import measure
from benchmarks.allocator.programs import Programs
from benchmarks.allocator.workloads import Workload, grouped, mig
from tests.interop.oracle import GO

pytestmark = [
    pytest.mark.skipif(GO is None, reason="Go is not installed"),
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(tmp_path_factory.mktemp("programs"), with_peer=True)


@pytest.mark.parametrize("make", [mig, grouped])
def test_both_place_every_pod(programs: Programs, make: Callable[[int, int, float, int], Workload]) -> None:
    path = programs.file(make(4, 1, 0, 0))
    theirs = programs.place_by_peer(path, 50)
    assert theirs is not None
    assert not theirs.failure
    assert measure(path, 50, "packed").placed == theirs.placed == theirs.offered == 50
