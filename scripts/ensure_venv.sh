#!/bin/sh
# Make a virtual environment with the project and its development tools: ensure_venv.sh <directory> [plain|release|docs]
# With "release" it gets what builds a release, with "docs" what builds the site, and nothing of the project. With "plain" it gets the project alone, and modules are compiled when they are first used: most never are.
set -eu
venv=$1
kind=${2:-dev}

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
        # Those who find the servers for the tests may be at it, too.
        flock /var/lib/apt sh -c 'apt-get update -qq && apt-get install -y -qq "$1"' - "$package" >/dev/null
    else
        echo "$python cannot make virtual environments: install $package (Debian, Ubuntu) or your system's equivalent." >&2
        exit 1
    fi
fi

mkdir -p "$(dirname "$venv")"
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
pip() { "$venv/bin/python" -m pip install --disable-pip-version-check -c constraints.txt "$@"; }

# What pip does, told in a few lines: how many packages are there, and what takes long.
told() {
    awk '
        /^ *(Collecting|Obtaining) / { found++; if (found % 10 == 0) { print "  " found " packages found"; fflush() } }
        /^ *Building wheel for pyspark/ { print "  packing PySpark, the largest of them"; fflush() }
        /^Installing collected packages/ { print "  unpacking " NF - 3 " packages (the longest part)"; fflush() }'
}

if [ "$kind" = plain ]; then
    echo "Installing Penstock and what it needs into $venv (once) ..."
    log="$venv/pip.log"
    { pip --no-compile --progress-bar off -e . 2>&1 || echo "pip failed"; } | tee "$log" | told
    if grep -qx "pip failed" "$log"; then
        cat "$log" >&2
        exit 1
    fi
    rm -f "$log"
elif [ "$kind" = release ]; then
    echo "Installing the tools for a release into $venv ..."
    pip --quiet setuptools build twine
elif [ "$kind" = docs ]; then
    echo "Installing what builds the documentation into $venv ..."
    extra='import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"])'
    # Only the extra: the reference is read from the sources, and nothing of the project is imported.
    pip --quiet $("$python" -c "$extra")
else
    echo "Installing into $venv (the first time takes a few minutes) ..."
    # Not compiled: that is a quarter of the time, and of 15,000 modules most are never used.
    pip --quiet --no-compile -e '.[dev]'
fi
