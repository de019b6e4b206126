#!/bin/sh
# Make a virtual environment with the project and its development tools: ensure_venv.sh <directory>
set -eu
venv=$1

suits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

python=
for candidate in python3.11 python3 python3.13 python3.12; do
    if suits "$candidate"; then python=$candidate; break; fi
done
if [ -z "$python" ]; then
    echo "Penstock needs Python 3.11 or newer, and none was found as python3.11 or python3; install it first." >&2
    exit 1
fi

if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    package="$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "Installing $package ..."
        { apt-get update -qq && apt-get install -y -qq "$package"; } >/dev/null
    else
        echo "$python cannot make virtual environments: install $package (Debian, Ubuntu) or your system's equivalent." >&2
        exit 1
    fi
fi

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
echo "Installing into $venv (the first time takes a few minutes) ..."
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -e '.[dev]' -c constraints.txt
