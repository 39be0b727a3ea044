"""Files of NVIDIA's driver on this node: libraries and programs.

Law of this package: it only reads files, and it must not assume a fixed folder. The driver may be installed
below its own root folder (`/run/nvidia/driver`). This process may see that root folder at another path.

- `paths`: `HostPaths`, the folders of the node; finds programs, and resolves links below a root.
- `ldcache`: finds libraries, in the usual folders or by the dynamic linker's cache.
"""
