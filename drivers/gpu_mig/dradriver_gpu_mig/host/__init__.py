"""Files of NVIDIA's driver on this node: libraries and programs.

Law of this package: it only reads, and it assumes no fixed folder. The driver may be installed below a root of
its own (`/run/nvidia/driver`), and that root may be mounted elsewhere.

- `paths`: `HostPaths`, the folders of the node.
- `ldcache`: finds libraries, in the usual folders or by the dynamic linker's cache.
- `programs`: finds programs.
- `root`: resolves links below a root.
"""
