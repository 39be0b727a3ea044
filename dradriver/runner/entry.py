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

from dradriver.driver import Driver, PoolDriver
from dradriver.driver.code_places import at, defined_at, raised_at
from dradriver.driver.named import check_class
from dradriver.errors import DraError, DriverError, UsageError
from dradriver.runner.catalog import load_any
from dradriver.runner.logs import start_log
from dradriver.runner.settings import OPTIONS, Settings

__all__ = ["FAILED", "OK", "USAGE", "end_threads", "launch", "run"]

OK, FAILED, USAGE = 0, 1, 2
"""Exit codes: stopped on request, failed, and used incorrectly."""
_THREAD_SECONDS: Final = 0.5
_NO_FORK_HANDLERS: Final = ("GRPC_ENABLE_FORK_SUPPORT", "0")
"""A driver may start programs. grpcio's fork handlers would write to stderr and could abort the child.

They are not needed, because no child process uses gRPC.
"""

_log = logging.getLogger("dradriver.runner")


def run(driver: type[Driver | PoolDriver], arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a driver until SIGTERM or SIGINT, then end the process.

    A `Driver` runs beside the kubelet of this node. A `PoolDriver` runs anywhere, once in the cluster.

    Settings come from the command line, else from the environment, else they are the kubelet's usual paths;
    `--help` lists them. Exit codes: 0 stopped on request, 1 failed, 2 used incorrectly.

    Args:
        driver: the class. It is instantiated without arguments.
        arguments: the command line. None: the process's own.
    """
    parser = argparse.ArgumentParser(description=f"Kubernetes DRA driver {getattr(driver, 'name', '')}")
    for option in OPTIONS:
        if option.only not in {"", _kind(driver)}:
            continue
        variables = ", ".join(f"${name}" for name in option.environment)
        default = f"; default {option.default}" if option.default else ""
        parser.add_argument(
            option.flag, dest=option.name, metavar="VALUE", help=f"{option.help} [{variables}{default}]"
        )
    sys.exit(launch(driver, vars(parser.parse_args(arguments))))


def launch(driver: type[Driver | PoolDriver] | str, given: Mapping[str, str | None]) -> int:
    """Run a driver with the settings of the command line; return the exit code.

    A `DraError` becomes one line on stderr. If the author's code raised, its traceback is logged at level
    debug. If a plain method of the driver never returns, this function ends the process, because nothing else
    can end the method's thread.

    Args:
        driver: the class, or its name for `load_any`.
        given: settings by option name. None: not given.
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


def _kind(driver: type[Driver | PoolDriver]) -> str:
    """Return the kind of driver, as in `Option.only`."""
    return "pool" if issubclass(driver, PoolDriver) else "node"


def _launch(driver: type[Driver | PoolDriver], given: Mapping[str, str | None], settings: Settings) -> int:
    try:
        _refuse_misplaced(driver, given)
        instance = _instantiate(driver, settings)
        gc.disable()  # imports leave no garbage, and collections would take a tenth of their time
        os.environ.setdefault(*_NO_FORK_HANDLERS)
        # Heavy imports (gRPC, metrics), so only now.
        import uvloop  # noqa: PLC0415

        from dradriver.runner.serve import serve  # noqa: PLC0415

        gc.freeze()
        gc.enable()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(instance, settings))
    except DraError as error:
        return _report(error)
    except KeyboardInterrupt:
        # Before or after the loop's own handling of SIGINT.
        return OK
    return OK


def _refuse_misplaced(driver: type[Driver | PoolDriver], given: Mapping[str, str | None]) -> None:
    kind = _kind(driver)
    for option in OPTIONS:
        if given.get(option.name) is not None and option.only not in {"", kind}:
            is_a = "a pool driver, which runs beside no kubelet" if kind == "pool" else "no pool driver"
            raise UsageError(f"{option.flag} is not for {driver.__name__}: it is {is_a}")


def end_threads(prefix: str, code: int) -> None:
    """End the process if threads with this name prefix do not end: Python would wait for them forever.

    The next process continues their work, as after a kill.
    """
    threads = [thread for thread in threading.enumerate() if thread.name.startswith(prefix)]
    until = time.monotonic() + _THREAD_SECONDS
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    if any(thread.is_alive() for thread in threads):
        _log.error("a method of the driver has not returned: ending the process all the same")
        logging.shutdown()
        os._exit(code)


def _instantiate(driver: type[Driver | PoolDriver], settings: Settings) -> Driver | PoolDriver:
    check_class(driver)
    try:
        instance = driver()
    except DraError as error:
        if not isinstance(error, ValueError):
            raise
        raise _raised(driver, error) from error
    except Exception as error:
        raise _raised(driver, error) from error
    instance.simulate = settings.simulate
    return instance


def _raised(driver: type[Driver | PoolDriver], error: Exception) -> DriverError:
    place = raised_at(error, driver) or defined_at(driver)
    return DriverError(f"{driver.__name__}() raised {error!r}{at(place)}")


def _report(error: DraError) -> int:
    sys.stderr.write(f"Error: {' '.join(str(error).splitlines())}\n")
    _log.debug("where it happened", exc_info=error)
    return USAGE if isinstance(error, UsageError) else FAILED
