"""A node, with devices that the fabric has connected."""

from pathlib import Path

import pytest

from tests.drivers.fabric_cxl.cxl_nodes import CxlNode


@pytest.fixture
def node(tmp_path: Path) -> CxlNode:
    node = CxlNode(tmp_path)
    node.plug_all()
    return node
