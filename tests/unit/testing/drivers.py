"""Drivers for tests of the test kit: correct ones, and ones that each break one rule of the contract."""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence

import dradriver as dra

Answers = Mapping[dra.AllocatedDevice, dra.PreparedDevice | dra.ContainerEdits]


class Plain(dra.Driver):
    """Two independent devices, no state; plain methods."""

    name = "plain.example.com"

    def discover(self) -> Iterable[dra.Device]:
        return [dra.Device("a", {"index": 0}), dra.Device("b", {"index": 1})]

    def prepare(self, claim: dra.Claim) -> Answers:
        return {device: dra.ContainerEdits(env={"DEVICE": device.name}) for device in claim.devices}


class Partitions(dra.Driver):
    """A card in halves or as a whole, in one of two modes; asynchronous methods."""

    name = "card.example.com"

    async def discover(self) -> Sequence[dra.Pool]:
        def part(name: str, slices: int, mode: str) -> dra.Device:
            return dra.Device(
                name, consumes_counters=[dra.CounterConsumption("card-0", {"slices": slices}, [mode])]
            )

        devices = [part("half-0", 1, "split"), part("half-1", 1, "split"), part("view", 1, "shared")]
        whole = dra.Device(
            "whole", consumes_counters=[dra.CounterConsumption("card-0", {"slices": 2}, ["split"])]
        )
        return [dra.Pool(devices=(*devices, whole), counter_sets=(dra.CounterSet("card-0", {"slices": 2}),))]

    async def prepare(self, claim: dra.Claim) -> Answers:
        return {device: dra.PreparedDevice(metadata={"part": device.name}) for device in claim.devices}

    async def unprepare(self, claim: dra.Claim) -> None:
        return None


class Ports(dra.Driver):
    """Ports of a fabric that a controller allocates; their handle says where they are."""

    name = "port.example.com"

    def discover(self) -> Iterable[dra.Device]:
        return []

    def prepare(self, claim: dra.Claim) -> Answers:
        return {device: dra.ContainerEdits(env={"PORT": _lane(device)}) for device in claim.devices}

    def unprepare(self, claim: dra.Claim) -> None:
        for device in claim.devices:
            _lane(device)


def _lane(device: dra.AllocatedDevice) -> str:
    lanes = json.loads(device.handle or b"{}")
    return f"{device.name}:{lanes[device.name]}"


class Unstable(Plain):
    """Names change from call to call."""

    numbers = itertools.count()

    def discover(self) -> Iterable[dra.Device]:
        return [dra.Device(f"device-{next(self.numbers)}")]


class Forgetful(Plain):
    """Returns no entry for one device of the claim."""

    def prepare(self, claim: dra.Claim) -> Answers:
        return {device: dra.ContainerEdits(env={"A": "b"}) for device in claim.devices[:1]}


class Once(Plain):
    """Can prepare a claim only once: not idempotent."""

    done: set[str] = set()

    def prepare(self, claim: dra.Claim) -> Answers:
        if claim.uid in self.done:
            raise RuntimeError("prepared already")
        self.done.add(claim.uid)
        return super().prepare(claim)


class Strict(Plain):
    """Fails to unprepare a claim that it has not prepared in this process."""

    def __init__(self) -> None:
        self.mine: set[str] = set()

    def prepare(self, claim: dra.Claim) -> Answers:
        self.mine.add(claim.uid)
        return super().prepare(claim)

    def unprepare(self, claim: dra.Claim) -> None:
        self.mine.remove(claim.uid)


class Misspelt(Plain):
    """Has a device name that the API server rejects."""

    def discover(self) -> Iterable[dra.Device]:
        return [dra.Device("Card_0")]
