"""`RealHardware` over a `FakeKernel`."""

from dataclasses import dataclass

from dradriver_fpga.card import Hardware
from dradriver_fpga.card.real import RealHardware
from tests.drivers.fpga.kernel.fake import FakeKernel


@dataclass
class KernelBench:
    hardware: RealHardware
    hand: FakeKernel

    def another(self) -> Hardware:
        return RealHardware(self.hand.host, self.hand)


def kernel_bench(kernel: FakeKernel, *models: str) -> KernelBench:
    for model in models:
        kernel.plug(model)
    bench = KernelBench(RealHardware(kernel.host, kernel), kernel)
    bench.hardware.open()
    return bench
