"""The garbage collector while many objects are loaded."""

import gc

import pytest

from dradriver.aio.bulk_load import bulk_load, collect_garbage_rarely


def test_the_collector_runs_again_after_the_load() -> None:
    with bulk_load():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_collector_runs_again_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), bulk_load():
        _ = 1 / 0
    assert gc.isenabled()


def test_loaded_objects_are_frozen() -> None:
    before = gc.get_freeze_count()
    try:
        with bulk_load():
            loaded = [[number] for number in range(100)]
        assert gc.get_freeze_count() >= before + len(loaded)
    finally:
        gc.unfreeze()


def test_garbage_is_collected_rarely() -> None:
    before = gc.get_threshold()
    try:
        gc.set_threshold(700, 10, 10)  # the default; another test of this process may have changed it
        collect_garbage_rarely()
        assert gc.get_threshold() > (700, 10, 10)
    finally:
        gc.set_threshold(*before)
