"""The reference drivers, one package each; they see only the public names of `dradriver`.

What their simulators have in common is in `simulated_state`.
"""
