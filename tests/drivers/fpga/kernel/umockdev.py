"""A testbed of umockdev by ctypes: this process sees it as /sys and /dev, and libudev receives its uevents."""

import ctypes
import ctypes.util
from pathlib import Path


class UmockdevBed:
    """To be made in a process that `umockdev-wrapper` started; its devices are files below `root`."""

    def __init__(self) -> None:
        library = ctypes.CDLL("libumockdev.so.0")
        library.umockdev_testbed_new.restype = ctypes.c_void_p
        library.umockdev_testbed_get_root_dir.restype = ctypes.c_char_p
        library.umockdev_testbed_get_root_dir.argtypes = [ctypes.c_void_p]
        library.umockdev_testbed_uevent.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
        library.g_object_unref.argtypes = [ctypes.c_void_p]
        self._library = library
        self._bed = ctypes.c_void_p(library.umockdev_testbed_new())

    @property
    def root(self) -> Path:
        return Path(self._library.umockdev_testbed_get_root_dir(self._bed).decode())

    def send(self, action: str, device: str, subsystem: str) -> None:
        """Sends uevents of FPGA managers only: umockdev ends the process if over ten are queued."""
        if subsystem != "fpga_manager":
            return
        self._library.umockdev_testbed_uevent(self._bed, f"/sys/{device}".encode(), action.encode())

    def close(self) -> None:
        self._library.g_object_unref(self._bed)
