"""Thousands of pods through one embedded cluster: what its processes and files grow by."""
