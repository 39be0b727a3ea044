"""What allocation costs and how well it packs, beside kube-scheduler's own plugin on the same workloads.

Nothing here is asserted: figures stand beside their targets, and a reader judges.
"""
