"""Growth of the processes and files of an embedded cluster over thousands of pods.

- `__main__`: runs the pods and prints the figures.
- `workload`: creates and deletes the pods.
- `figures`: reads the figures of a process.
"""
