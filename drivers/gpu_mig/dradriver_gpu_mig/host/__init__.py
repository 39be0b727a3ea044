"""Files of NVIDIA's driver on this node: libraries, programs and the kernel's log.

Law of this package: it only reads files, except that `hook` copies one program into the driver's own folder. It
must not assume a fixed folder: NVIDIA's driver may be installed below its own root folder
(`/run/nvidia/driver`), and this process may see that root folder at another path.

- `hook`: `nvidia-cdi-hook`: the shipped program, or that of a container toolkit.
- `kernel_log`: XIDs in the kernel's log.
- `paths`: `HostPaths`, the folders of the node; finds programs, and resolves links below a root.
- `ldcache`: finds libraries, in the usual folders or by the dynamic linker's cache.
"""
