"""Container edits that make a container's programs clients of the claim's MPS daemon."""

from typing import Final

import dradriver as dra
from dradriver_gpu_mig.mps.host import MpsFolders

__all__ = ["make_mps_edits"]

_PIPE_IN_CONTAINER: Final = "/tmp/nvidia-mps"  # noqa: S108 - the path that CUDA uses by default
_SHM_IN_CONTAINER: Final = "/dev/shm"  # noqa: S108 - the folder of POSIX shared memory
_OPTIONS: Final = ("rw", "nosuid", "nodev", "rbind")


def make_mps_edits(folders: MpsFolders, claim: str) -> dra.ContainerEdits:
    """Return the edits. The containers of other claims and the log folder are not reachable through them.

    Args:
        folders: folders of the claims.
        claim: UID of the claim.

    Raises:
        DraError: the UID is not a file name.
    """
    return dra.ContainerEdits(
        env={"CUDA_MPS_PIPE_DIRECTORY": _PIPE_IN_CONTAINER},
        mounts=[
            dra.Mount(str(folders.pipe(claim)), _PIPE_IN_CONTAINER, _OPTIONS),
            dra.Mount(str(folders.shm(claim)), _SHM_IN_CONTAINER, _OPTIONS),
        ],
    )
