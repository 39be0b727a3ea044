from pathlib import Path

import pytest

from dradriver.cluster.cluster import EmbeddedCluster
from dradriver.errors import UsageError


async def test_it_gives_no_session_that_is_closed_already(tmp_path: Path) -> None:
    cluster = EmbeddedCluster(tmp_path, runtime="no such runtime")
    with pytest.raises(UsageError):
        await cluster.start()
    with pytest.raises(UsageError, match="has not been started"):
        cluster.client()
