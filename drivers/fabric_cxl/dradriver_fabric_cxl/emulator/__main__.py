"""Runs the emulator: `python -m dradriver_fabric_cxl.emulator --help`."""

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path

import msgspec

from dradriver_fabric_cxl.emulator import Answers, Emulator, EmulatorSettings, NoHook, ProgramHook


def _parse() -> argparse.Namespace:
    defaults = EmulatorSettings()
    parser = argparse.ArgumentParser(
        prog="python -m dradriver_fabric_cxl.emulator",
        description="Emulate a Redfish fabric manager on 127.0.0.1.",
    )
    parser.add_argument("--port", type=int, default=0, help="port to listen on (0: any free one)")
    parser.add_argument("--state", type=Path, help="file that keeps the state (default: memory)")
    parser.add_argument("--cert", type=Path, required=True, help="certificate, in a PEM file")
    parser.add_argument("--key", type=Path, required=True, help="private key, in a PEM file")
    parser.add_argument("--user", required=True, help="name of the administrator")
    parser.add_argument(
        "--password-file", type=Path, required=True, help="file with the administrator's password"
    )
    parser.add_argument("--hook", type=Path, help="program that changes the hardware, with a call in its input")
    parser.add_argument("--latency", type=float, default=defaults.latency, help="seconds that each work takes")
    parser.add_argument(
        "--retry-after", default=defaults.retry_after, help="seconds or HTTP date beside a task"
    )
    parser.add_argument(
        "--answers",
        type=Answers,
        choices=list(Answers),
        default=defaults.answers,
        help="answer to POST and DELETE",
    )
    parser.add_argument("--no-names", action="store_true", help="new objects get names of the manager's own")
    parser.add_argument(
        "--domain-mib", type=int, nargs="+", default=defaults.domain_mib, help="MiB of each memory domain"
    )
    parser.add_argument(
        "--minimum-mib", type=int, default=defaults.minimum_mib, help="MiB of the smallest chunk"
    )
    parser.add_argument(
        "--increment-mib", type=int, default=defaults.increment_mib, help="MiB a chunk grows by"
    )
    parser.add_argument("--hosts", type=int, default=defaults.hosts, help="number of hosts")
    parser.add_argument(
        "--host-attachments",
        type=int,
        default=defaults.host_attachments,
        help="connections that a host can have",
    )
    parser.add_argument("--no-accelerator", action="store_true", help="a fabric without the accelerator")
    parser.add_argument(
        "--session-seconds",
        type=float,
        default=defaults.session_seconds,
        help="seconds that an unused session lasts",
    )
    return parser.parse_args()


def _settings(arguments: argparse.Namespace) -> EmulatorSettings:
    return EmulatorSettings(
        domain_mib=tuple(arguments.domain_mib),
        minimum_mib=arguments.minimum_mib,
        increment_mib=arguments.increment_mib,
        hosts=arguments.hosts,
        host_attachments=arguments.host_attachments,
        accelerator=not arguments.no_accelerator,
        latency=arguments.latency,
        retry_after=arguments.retry_after,
        answers=arguments.answers,
        keeps_names=not arguments.no_names,
        session_seconds=arguments.session_seconds,
    )


async def _run(arguments: argparse.Namespace, password: str) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    emulator = Emulator(
        _settings(arguments),
        state_file=arguments.state,
        certificate=arguments.cert,
        key=arguments.key,
        user=arguments.user,
        password=password,
        hook=ProgramHook(arguments.hook) if arguments.hook else NoHook(),
    )
    url = await emulator.start(arguments.port)
    sys.stdout.write(json.dumps({"url": url}) + "\n")
    sys.stdout.flush()
    await stopping.wait()
    await emulator.stop()


def main() -> None:
    """Run until SIGTERM or SIGINT. A wrong file ends the process with one line."""
    arguments = _parse()
    try:
        for path in (arguments.cert, arguments.key):
            path.read_bytes()  # the error of the TLS library does not name the file
        asyncio.run(_run(arguments, arguments.password_file.read_text().strip()))
    except OSError as error:
        sys.exit(_format(f"{error.filename}: {error.strerror}" if error.filename else str(error)))
    except msgspec.DecodeError as error:
        sys.exit(_format(f"--state {arguments.state}: is damaged: {error}"))


def _format(problem: str) -> str:
    return f"Error: {problem}"


if __name__ == "__main__":
    main()
