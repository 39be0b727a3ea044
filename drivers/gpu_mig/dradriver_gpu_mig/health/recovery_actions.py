"""What a GPU itself says must be done before it works again.

The recovery action is the authority about the health of a GPU whose driver reports it: an error number alone
does not tell whether the GPU has recovered.

Source:
    NVML_FI_DEV_GET_GPU_RECOVERY_ACTION and nvmlDeviceGpuRecoveryAction_t of nvml.h;
    https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from dradriver_gpu_mig.card import RecoveryAction
from dradriver_gpu_mig.settings import Effect, RecoveryName

__all__ = ["RECOVERIES", "Recovery"]


class Recovery(NamedTuple):
    """How a recovery action affects the devices of its GPU.

    Attributes:
        value: value of the taint, and name of the action in the settings.
        effect: default effect of the taint.
        remedy: what the operator must do, for messages.
    """

    value: RecoveryName
    effect: Effect
    remedy: str


RECOVERIES: Final[Mapping[RecoveryAction, Recovery]] = {
    RecoveryAction.GPU_RESET: Recovery("gpu-reset", "NoExecute", "end all its processes and reset the GPU"),
    RecoveryAction.NODE_REBOOT: Recovery("node-reboot", "NoExecute", "reboot the node"),
    # Programs that do not use peer-to-peer transfers still work. Afterwards, the GPU reports another action.
    RecoveryAction.DRAIN_P2P: Recovery(
        "drain-p2p", "NoSchedule", "end all processes that use peer-to-peer transfers"
    ),
    # Running programs can finish.
    RecoveryAction.DRAIN_AND_RESET: Recovery(
        "drain-and-reset", "NoSchedule", "let its processes finish and reset the GPU"
    ),
    # Concerns only programs that use GPUs of several nodes.
    RecoveryAction.RECOVER_IMEX_DOMAIN: Recovery("recover-imex-domain", "None", "recover the IMEX domain"),
    RecoveryAction.BUS_RESET: Recovery("bus-reset", "NoExecute", "reset the PCIe bus of the GPU"),
    RecoveryAction.SYSTEM_REBOOT: Recovery("system-reboot", "NoExecute", "reboot the system"),
    RecoveryAction.UNKNOWN: Recovery(
        "unknown", "NoSchedule", "ask nvidia-smi -q for the recovery action, which is newer than this program"
    ),
}
"""The effects by action. `RecoveryAction.NONE` is absent: the GPU can be used at once."""
