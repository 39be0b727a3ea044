"""NVIDIA's catalog of XIDs: what each error number means, and what NVIDIA recommends to do first.

The catalog matters only for drivers that do not report a recovery action, and for the effect `None` or
`NoSchedule` that an operator chooses for an XID.

Source:
    https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, columns "Code", "Mnemonic" and
    "Resolution Bucket (Immediate Action)"; numbers and mnemonics also in nverror.h of NVIDIA's open kernel
    modules.
"""

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from dradriver_gpu_mig.settings import Effect

__all__ = ["XIDS", "Xid", "XidResolution", "describe_xid", "get_default_effect"]


class XidResolution(enum.Enum):
    """What NVIDIA recommends to do first."""

    IGNORE = "no action is needed"
    RESTART_APP = "restart the program"
    RESET_GPU = "reset the GPU"
    REBOOT_NODE = "reboot the node"
    INVESTIGATE = "investigate the error"


class Xid(NamedTuple):
    """One kind of error.

    Attributes:
        mnemonic: NVIDIA's name of the error, without the prefix `ROBUST_CHANNEL_`.
        resolution: what to do first.
    """

    mnemonic: str
    resolution: XidResolution


_EFFECTS: Final[Mapping[XidResolution, Effect]] = {
    XidResolution.IGNORE: "Ignore",
    XidResolution.RESTART_APP: "Ignore",
    XidResolution.RESET_GPU: "NoExecute",
    XidResolution.REBOOT_NODE: "NoExecute",
    XidResolution.INVESTIGATE: "NoSchedule",
}

_IGNORE, _RESTART, _RESET, _REBOOT, _INVESTIGATE = XidResolution

XIDS: Final[Mapping[int, Xid]] = {
    8: Xid("FIFO_ERROR_IDLE_TIMEOUT", _RESTART),
    11: Xid("GR_ERROR_MISSING_HW", _RESTART),
    13: Xid("GR_EXCEPTION", _RESTART),
    31: Xid("FIFO_ERROR_MMU_ERR_FLT", _RESTART),
    32: Xid("PBDMA_ERROR", _RESTART),
    37: Xid("FECS_ERR_UNIMP_FIRMWARE_METHOD", _IGNORE),
    38: Xid("FECS_ERR_WATCHDOG_TIMEOUT", _IGNORE),
    39: Xid("CE0_ERROR", _RESTART),
    40: Xid("CE1_ERROR", _RESTART),
    41: Xid("CE2_ERROR", _RESTART),
    43: Xid("RESETCHANNEL_VERIF_ERROR", _IGNORE),
    44: Xid("GR_FAULT_DURING_CTXSW", _IGNORE),
    # The catalog follows the error that accompanies it.
    45: Xid("PREEMPTIVE_REMOVAL", _IGNORE),
    46: Xid("GPU_TIMEOUT_ERROR", _RESET),
    48: Xid("GPU_ECC_DBE", _RESET),
    54: Xid("SILENT_RUNNING_PWR_REDUCED_CLOCKING", _INVESTIGATE),
    60: Xid("SEC2_ERROR", _RESTART),
    62: Xid("PMU_HALT_ERROR", _RESET),
    63: Xid("INFOROM_DRAM_RETIREMENT_EVENT", _IGNORE),
    64: Xid("INFOROM_DRAM_RETIREMENT_FAILURE", _RESET),
    66: Xid("FECS_ERR_REG_ACCESS_VIOLATION", _IGNORE),
    67: Xid("FECS_ERR_VERIF_VIOLATION", _IGNORE),
    68: Xid("NVDEC0_ERROR", _RESTART),
    69: Xid("GR_CLASS_ERROR", _RESTART),
    **{number: Xid(f"CE{number - 67}_ERROR", _RESTART) for number in (70, 71, 72)},
    # The catalog decides by registers that the event does not contain; the usual result is a reset.
    74: Xid("NVLINK_ERROR", _RESET),
    **{number: Xid(f"CE{number - 69}_ERROR", _RESTART) for number in (75, 76, 77)},
    78: Xid("VGPU_START_ERROR", _INVESTIGATE),
    79: Xid("GPU_HAS_FALLEN_OFF_THE_BUS", _REBOOT),
    80: Xid("PBDMA_PUSHBUFFER_CRC_MISMATCH", _RESTART),
    82: Xid("NVJPG0_ERROR", _RESTART),
    83: Xid("NVDEC1_ERROR", _RESTART),
    84: Xid("NVDEC2_ERROR", _RESTART),
    85: Xid("CE9_ERROR", _RESTART),
    86: Xid("OFA0_ERROR", _RESTART),
    88: Xid("NVDEC3_ERROR", _RESTART),
    89: Xid("NVDEC4_ERROR", _RESTART),
    92: Xid("EXCESSIVE_SBE_INTERRUPTS", _IGNORE),
    93: Xid("INFOROM_ERASE_LIMIT_EXCEEDED", _IGNORE),
    94: Xid("CONTAINED_ERROR", _RESTART),
    95: Xid("UNCONTAINED_ERROR", _RESET),
    **{number: Xid(f"NVDEC{number - 91}_ERROR", _RESTART) for number in (96, 97, 98)},
    **{number: Xid(f"NVJPG{number - 98}_ERROR", _RESTART) for number in range(99, 106)},
    106: Xid("SMBPBI_TEST_MESSAGE", _IGNORE),
    107: Xid("SMBPBI_TEST_MESSAGE_SILENT", _IGNORE),
    108: Xid("NVLINK_REMOTE_TRANSLATION_ERROR", _IGNORE),
    # The catalog recommends a reset. NVIDIA's drivers for Kubernetes ignore this XID, because a program that
    # hangs also causes it.
    109: Xid("CTXSW_TIMEOUT_ERROR", _RESTART),
    110: Xid("SEC_FAULT_ERROR", _RESET),
    119: Xid("GSP_RPC_TIMEOUT", _RESET),
    120: Xid("GSP_ERROR", _RESET),
    121: Xid("C2C_ERROR", _IGNORE),
    **{number: Xid(f"CE{number - 116}_ERROR", _RESTART) for number in range(126, 136)},
    136: Xid("ALI_TRAINING_FAIL", _RESET),
    137: Xid("NVLINK_PRIV_ERR", _IGNORE),
    139: Xid("OFA1_ERROR", _RESTART),
    140: Xid("UNRECOVERABLE_ECC_ERROR_ESCAPE", _RESET),
    141: Xid("FAST_PATH_ERROR", _IGNORE),
    142: Xid("NVENC3_ERROR", _INVESTIGATE),
    143: Xid("GPU_INIT_ERROR", _RESET),
    144: Xid("NVLINK_SAW_ERROR", _INVESTIGATE),
    145: Xid("NVLINK_RLW_ERROR", _INVESTIGATE),
    146: Xid("NVLINK_TLW_ERROR", _INVESTIGATE),
    147: Xid("NVLINK_TREX_ERROR", _INVESTIGATE),
    148: Xid("NVLINK_NVLPW_CTRL_ERROR", _INVESTIGATE),
    149: Xid("NVLINK_NETIR_ERROR", _INVESTIGATE),
    150: Xid("NVLINK_MSE_ERROR", _INVESTIGATE),
    151: Xid("KEY_ROTATION_ERROR", _REBOOT),
    # The error of which this XID reports the consequence has its own XID.
    154: Xid("GPU_RECOVERY_ACTION_CHANGED", _IGNORE),
    155: Xid("NVLINK_SW_DEFINED_ERROR", _RESET),
    156: Xid("RESOURCE_RETIREMENT_EVENT", _RESET),
    157: Xid("RESOURCE_RETIREMENT_FAILURE", _IGNORE),
    158: Xid("GPU_FATAL_TIMEOUT", _RESET),
}
"""The catalog by number. Numbers that no present GPU uses are left out."""

_UNKNOWN: Final = Xid("unknown", XidResolution.INVESTIGATE)


def get_default_effect(number: int) -> Effect:
    """Return the effect of an XID on a GPU that does not report a recovery action.

    Args:
        number: the XID.
    """
    return _EFFECTS[XIDS.get(number, _UNKNOWN).resolution]


def describe_xid(number: int) -> str:
    """Return the number, the name and the recommendation of an XID, for messages.

    Args:
        number: the XID.
    """
    xid = XIDS.get(number, _UNKNOWN)
    return f"XID {number} ({xid.mnemonic}): {xid.resolution.value}"
