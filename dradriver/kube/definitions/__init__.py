"""The custom resource definitions of classic DRA (`classic.dradriver.dev`), and their installation.

The YAML files are the only source. The chart has a copy of each, and a test compares the copies.

Removing a definition removes all objects of its kind. Claims that are allocated stay allocated, but their
controllers lose their records.
"""

from dradriver.kube.definitions.install import install_definitions, read_definitions

__all__ = ["install_definitions", "read_definitions"]
