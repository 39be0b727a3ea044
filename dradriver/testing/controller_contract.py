"""The tests that every controller driver must pass: subclass `ControllerContract` in a test module.

    class TestContract(ControllerContract):
        driver_class = MyController

The tests need hardware that can allocate a claim for each node in `nodes`. Override `make_driver` to return a
driver with simulated hardware. The hardware must outlive the driver, because the tests restart the driver.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

import pytest

from dradriver.driver import AllocationError, Config, ControllerAllocationResult, ControllerDriver, PendingClaim
from dradriver.driver.driver_class import check_class
from dradriver.model import names
from dradriver.model.encoding.codec import canonical
from dradriver.testing.controller_harness import ControllerHarness

__all__ = ["ControllerContract"]

_MANY: Final = 64
"""Maximum number of claims with which a test fills the hardware."""


class ControllerContract:
    """Checks that a controller driver behaves as the docstrings of `dradriver.ControllerDriver` describe.

    Attributes:
        driver_class: the driver under test, if its constructor needs no arguments.
        nodes: the nodes for which claims are allocated. A claim must fit on each of them.
        class_config: the parameters of the class of every claim, for drivers that require them.
        claim_config: the parameters of every claim, for drivers that require them.
    """

    driver_class: ClassVar[type[ControllerDriver]]
    nodes: ClassVar[Sequence[str]] = ("node-1", "node-2")
    class_config: ClassVar[Config | None] = None
    claim_config: ClassVar[Config | None] = None

    def make_driver(self) -> ControllerDriver:
        """Return a new driver, as a new process would create it; override this to use simulated hardware."""
        return self.driver_class()

    @pytest.fixture
    def controller(self) -> Iterator[ControllerHarness]:
        """Yield a harness that runs the driver."""
        with ControllerHarness(self.make_driver) as harness:
            yield harness

    @pytest.fixture
    def pending(self, controller: ControllerHarness) -> PendingClaim:
        """Return a claim that is not allocated."""
        return self._claim(controller)

    def test_its_class_can_be_run(self, controller: ControllerHarness) -> None:
        check_class(type(controller.driver))
        assert names.driver_name(controller.driver.name) is None

    def test_an_allocation_is_what_an_api_server_accepts(
        self, controller: ControllerHarness, pending: PendingClaim
    ) -> None:
        from dradriver.cluster.rules import find_problems  # noqa: PLC0415 - slow to import

        node = self.nodes[0]
        result = controller.allocate(pending, node=node)[pending.uid]
        problems = list(find_problems("ResourceClaim", canonical(controller.written(pending, result, node))))
        assert not problems, problems

    def test_allocating_again_gives_the_same_result(
        self, controller: ControllerHarness, pending: PendingClaim
    ) -> None:
        first = controller.allocate(pending, node=self.nodes[0])
        assert controller.allocate(pending, node=self.nodes[0]) == first

    def test_after_a_restart_allocating_again_gives_the_same_result(
        self, controller: ControllerHarness, pending: PendingClaim
    ) -> None:
        first = controller.allocate(pending, node=self.nodes[0])
        controller.restart()
        assert controller.allocate(pending, node=self.nodes[0]) == first

    def test_deallocating_twice_is_fine(self, controller: ControllerHarness, pending: PendingClaim) -> None:
        controller.allocate(pending, node=self.nodes[0])
        controller.deallocate(pending, self.nodes[0])
        controller.restart()
        controller.deallocate(pending, self.nodes[0])
        _assert_not_held(controller, pending)

    def test_deallocating_a_claim_that_was_never_allocated_is_fine(
        self, controller: ControllerHarness, pending: PendingClaim
    ) -> None:
        controller.deallocate(pending)
        _assert_not_held(controller, pending)

    def test_a_claim_can_be_allocated_for_another_node_afterwards(
        self, controller: ControllerHarness, pending: PendingClaim
    ) -> None:
        for node in self.nodes:
            controller.allocate(pending, node=node)
            controller.deallocate(pending, node)
        _assert_not_held(controller, pending)

    def test_allocations_lists_what_was_allocated(
        self, controller: ControllerHarness, pending: PendingClaim
    ) -> None:
        if controller.allocations() is None:
            pytest.skip("the hardware of this driver keeps no record of allocations")
        other = self._claim(controller)
        controller.allocate(pending, node=self.nodes[0])
        controller.restart()
        held = controller.allocations()
        assert held is not None
        assert (pending.uid in held, other.uid in held) == (True, False)

    def test_a_node_that_is_not_called_unsuitable_is_suitable(self, controller: ControllerHarness) -> None:
        """Fills each node, and compares `unsuitable_nodes` with `allocate` before each claim."""
        for node in self.nodes:
            for _ in range(_MANY):
                claim = self._claim(controller)
                is_unsuitable = node in controller.unsuitable_nodes(claim, nodes=self.nodes)[claim.uid]
                result = controller.try_allocate(claim, node=node)[claim.uid]
                if isinstance(result, AllocationError):
                    assert is_unsuitable, f"{node} was not called unsuitable, but: {result}"
                    break
                if is_unsuitable:
                    break

    def test_the_claims_of_a_pod_are_considered_together(self, controller: ControllerHarness) -> None:
        """Two claims of one pod: a node on which only one of them fits is unsuitable."""
        for node in self.nodes:
            for _ in range(_MANY):
                pair = self._claim(controller), self._claim(controller)
                unsuitable = controller.unsuitable_nodes(*pair, nodes=self.nodes)
                results = controller.try_allocate(*pair, node=node).values()
                failures = [each for each in results if isinstance(each, AllocationError)]
                if failures:
                    assert any(node in each for each in unsuitable.values()), f"{node}: {failures[0]}"
                    break
                if any(node in each for each in unsuitable.values()):
                    break

    def test_a_partial_allocation_can_be_taken_back(self, controller: ControllerHarness) -> None:
        """Fills a node with pairs of claims until one of a pair fails, and deallocates both of each pair."""
        node, allocated = self.nodes[0], list[PendingClaim]()
        for _ in range(_MANY):
            pair = self._claim(controller), self._claim(controller)
            allocated += pair
            results = controller.try_allocate(*pair, node=node)
            if not all(isinstance(each, ControllerAllocationResult) for each in results.values()):
                break
        for claim in allocated:
            controller.deallocate(claim, node)
        _assert_not_held(controller, *allocated)
        again = self._claim(controller)
        assert controller.allocate(again, node=node)

    def _claim(self, controller: ControllerHarness) -> PendingClaim:
        return controller.claim(class_config=self.class_config, claim_config=self.claim_config)


def _assert_not_held(controller: ControllerHarness, *claims: PendingClaim) -> None:
    held = controller.allocations() or set()
    assert not {claim.uid for claim in claims} & held
