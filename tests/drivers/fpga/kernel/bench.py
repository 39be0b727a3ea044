"""`RealFpgas` over a `FakeKernel`."""

from dataclasses import dataclass

from dradriver_fpga.card import FpgaHardware
from dradriver_fpga.card.real import RealFpgas
from tests.drivers.fpga.kernel.fake import FakeKernel


@dataclass
class KernelBench:
    hardware: RealFpgas
    controls: FakeKernel

    def another(self) -> FpgaHardware:
        return RealFpgas(self.controls.host, self.controls)


def kernel_bench(kernel: FakeKernel, *models: str) -> KernelBench:
    for model in models:
        kernel.plug(model)
    bench = KernelBench(RealFpgas(kernel.host, kernel), kernel)
    bench.hardware.open()
    return bench
