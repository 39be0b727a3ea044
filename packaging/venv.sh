#!/bin/sh
# Creates a virtual environment with a pip that supports dependency groups, also on machines without ensurepip.
# Usage: PYTHON=python3.12 venv.sh DIRECTORY
#        PYTHON=python3.12 venv.sh --is-of-another DIRECTORY    succeeds if it exists and is of another Python
set -eu

python=${PYTHON:-python3}

if [ "$1" = --is-of-another ]; then
    describe='import sys; print(sys.base_prefix, sys.version)'
    [ -x "$2/bin/python" ] && wanted=$("$python" -c "$describe" 2>/dev/null) &&
        [ "$("$2/bin/python" -c "$describe" 2>/dev/null)" != "$wanted" ]
    exit
fi
venv=$1

fail() {
    echo "make: $1" >&2
    exit 1
}

command -v "$python" >/dev/null || fail "$python not found: install Python 3.11 or newer, or run make PYTHON=/path/to/python"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$python is $("$python" -V 2>&1): dradriver needs Python 3.11 or newer; run make PYTHON=/path/to/python"

if [ -x "$venv/bin/python" ] && "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    exit 0
fi

echo "creating a virtual environment in $venv"
if ! "$python" -m venv "$venv" >/dev/null 2>&1; then
    # Debian and Ubuntu ship Python without ensurepip.
    rm -rf "$venv"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing python3-venv, because this Python has no ensurepip"
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv; } >/dev/null ||
            fail "apt-get could not install python3-venv"
        "$python" -m venv "$venv"
    else
        fail "$python cannot create virtual environments: install its venv module (Debian: apt-get install python3-venv)"
    fi
fi
# pip supports dependency groups since 25.1.
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
