"""`run()`: the only call that a driver's `__main__` needs."""

import argparse
import asyncio
import gc
import logging
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

from dradriver.driver import AnyDriver, ControllerDriver, DriverBase, PoolDriver
from dradriver.driver.driver_class import check_class
from dradriver.driver.source_locations import find_definition, find_raise, format_location
from dradriver.errors import DraError, DriverError, UsageError
from dradriver.runner.catalog import load_any
from dradriver.runner.logs import start_log
from dradriver.runner.settings import OPTIONS, Settings

__all__ = ["FAILED", "OK", "USAGE", "end_threads", "launch", "run"]

OK, FAILED, USAGE = 0, 1, 2
"""Exit codes: the driver stopped on request, failed, or was started with wrong settings."""
_THREAD_SECONDS: Final = 0.5
_NO_FORK_HANDLERS: Final = ("GRPC_ENABLE_FORK_SUPPORT", "0")
"""Turns off grpcio's fork handlers, which write to stderr and could abort programs that a driver starts.

The handlers are not needed, because no child process uses gRPC.
"""

_log = logging.getLogger("dradriver.runner")


def run(driver: type[AnyDriver], arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a driver until SIGTERM or SIGINT, then end the process.

    A `Driver` runs beside the kubelet of this node. A `PoolDriver` or `ControllerDriver` runs on any
    machine, once in the cluster.

    Settings are read from the command line or, if they are not given there, from the environment. The default
    paths are those of the kubelet. `--help` lists the settings. The exit code is 0 if the driver stopped on
    request, 1 if it failed, and 2 if the settings are wrong.

    Args:
        driver: the class. It is instantiated without arguments.
        arguments: the command line. None: the command line of the process.
    """
    parser = argparse.ArgumentParser(description=f"Kubernetes DRA driver {getattr(driver, 'name', '')}")
    for option in OPTIONS:
        if option.only and not set(_kinds(driver)) & set(option.only):
            continue
        variables = ", ".join(f"${name}" for name in option.environment)
        default = f"; default {option.default}" if option.default else ""
        parser.add_argument(
            option.flag, dest=option.name, metavar="VALUE", help=f"{option.help} [{variables}{default}]"
        )
    sys.exit(launch(driver, vars(parser.parse_args(arguments))))


def launch(driver: type[AnyDriver] | str, given: Mapping[str, str | None]) -> int:
    """Run a driver with the settings of the command line.

    If a `DraError` is raised, it is written to stderr as one line, and its traceback is logged at level debug.
    If a plain method of the driver never returns, this function ends the process, because the method's thread
    cannot be ended.

    Args:
        driver: the class of the driver, or a name that `load_any` accepts.
        given: the settings of the command line, by option name. None: the setting was not given.

    Returns:
        The exit code: `OK`, `FAILED` or `USAGE`.
    """
    try:
        settings = Settings.read(given, os.environ)
        start_log(settings.log_format, settings.log_level)
        kind = load_any(driver) if isinstance(driver, str) else driver
    except DraError as error:
        return _report(error)
    code = _launch(kind, given, settings)
    end_threads(f"driver-{getattr(kind, 'name', '')}", code)
    return code


def _kinds(driver: type[AnyDriver]) -> list[str]:
    """Return the kinds of the driver, as in `Option.only`; a driver can be a pool driver and a controller."""
    kinds: dict[str, type[DriverBase]] = {"pool": PoolDriver, "controller": ControllerDriver}
    return [kind for kind, base in kinds.items() if issubclass(driver, base)] or ["node"]


def _launch(driver: type[AnyDriver], given: Mapping[str, str | None], settings: Settings) -> int:
    try:
        _check_options(driver, given)
        instance = _instantiate(driver, settings)
        gc.disable()  # imports leave no garbage, and collections would add a tenth to their time
        os.environ.setdefault(*_NO_FORK_HANDLERS)
        # These imports are slow (gRPC, metrics, uvloop), so they are delayed until here.
        from dradriver.aio.event_loop import DriverEventLoop  # noqa: PLC0415
        from dradriver.runner.serve import serve  # noqa: PLC0415

        gc.freeze()
        gc.enable()
        with asyncio.Runner(loop_factory=DriverEventLoop) as runner:
            runner.run(serve(instance, settings))
    except DraError as error:
        return _report(error)
    except KeyboardInterrupt:
        # SIGINT came before or after the time in which the event loop handles it.
        return OK
    return OK


def _check_options(driver: type[AnyDriver], given: Mapping[str, str | None]) -> None:
    kinds = _kinds(driver)
    for option in OPTIONS:
        if given.get(option.name) is not None and option.only and not set(kinds) & set(option.only):
            kind = " and ".join(kinds)
            rule = f"is only for {' and '.join(option.only)} drivers, {driver.__name__} is a {kind} driver"
            raise UsageError(f"{option.flag}: {rule}")


def end_threads(prefix: str, code: int) -> None:
    """End the process if a thread with this name prefix does not end: Python would wait for it forever.

    The next process continues the thread's work, as after a kill.
    """
    threads = [thread for thread in threading.enumerate() if thread.name.startswith(prefix)]
    deadline = time.monotonic() + _THREAD_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    if any(thread.is_alive() for thread in threads):
        _log.error("a method of the driver has not returned: ending the process anyway")
        logging.shutdown()
        os._exit(code)


def _instantiate(driver: type[AnyDriver], settings: Settings) -> AnyDriver:
    check_class(driver)
    try:
        instance = driver()
    except DraError as error:
        if not isinstance(error, ValueError):
            raise
        raise _constructor_error(driver, error) from error
    except Exception as error:
        raise _constructor_error(driver, error) from error
    instance.simulate = settings.simulate
    return instance


def _constructor_error(driver: type[AnyDriver], error: Exception) -> DriverError:
    location = find_raise(error, driver) or find_definition(driver)
    return DriverError(f"{driver.__name__}() raised {error!r}{format_location(location)}")


def _report(error: DraError) -> int:
    sys.stderr.write(f"Error: {' '.join(str(error).splitlines())}\n")
    _log.debug("traceback of the error", exc_info=error)
    return USAGE if isinstance(error, UsageError) else FAILED
