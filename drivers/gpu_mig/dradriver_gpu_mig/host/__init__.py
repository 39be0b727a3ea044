"""What NVIDIA's driver left on this node: libraries and programs.

Law of this package: it reads files and writes nothing, and takes no folder for granted: the driver may be
installed below a root of its own (`/run/nvidia/driver`), and all of it may be mounted elsewhere.
"""
