"""The command `dradriver`: one module or folder for each command, and shared parts.

Law of this package: a command reads options, calls the layers below, and shows the result. It must not make
decisions about devices, claims or pods. Output for people goes to stdout as tables or sentences. Output for
programs is a JSON or YAML document with stable names. Errors and progress go to stderr. Exit codes: 0 success,
1 failed or invalid, 2 wrong usage. A slow import must run only in the command that needs it.

Entry:

- `main`: the root command, with the table of commands.
- `lazy_group`: groups that import a command when it is called.
- `cluster_access`: options and connection for commands that use a cluster.

Commands:

- `completion`: `dradriver completion`.
- `demonstration`: `dradriver demo`.
- `explanation`: `dradriver explain`.
- `get`: `dradriver get`.
- `manifests`: `dradriver manifests`.
- `new`: `dradriver new`; `skeleton` holds the files of a new project.
- `node`: `dradriver node`; `node_folders` finds the state of its drivers.
- `run`: `dradriver run`.
- `scheduler`: `dradriver scheduler`.
- `selector`: `dradriver cel`.
- `simulation`: `dradriver simulate`.
- `top`: `dradriver top`.
- `up`: `dradriver up`.
- `validation`: `dradriver validate`.
- `webhook`: `dradriver webhook`.
- `withdraw`: `dradriver withdraw`.

Shared parts:

- `attempt`: runs the allocator on a world, for `simulate` and `explain`.
- `embedded_cluster`: an option and driver processes for `up` and `demo`; `supervision` restarts the processes.
- `habits`: what users of kubectl type by habit.
- `jsonpath`: kubectl's JSONPath templates.
- `listing`: lists with the options of `kubectl get`.
- `files`: reads objects from files.
- `terminal`: tables, documents, errors and progress.
- `world`: the objects of a cluster, read from files or from the API server.
"""

import signal
import threading

# During the imports, Ctrl-C would print a traceback. This handler ends the process without a traceback.
_IN_MAIN = threading.current_thread() is threading.main_thread()
_handler = signal.signal(signal.SIGINT, signal.SIG_DFL) if _IN_MAIN else None

from dradriver.cli.main import main  # noqa: E402 - see above

if _handler is not None:
    signal.signal(signal.SIGINT, _handler)

__all__ = ["main"]
