"""The reference drivers, one package each; they see only the public names of `dradriver`."""
