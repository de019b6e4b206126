#!/bin/sh
# What somebody meets who installs the wheel: a new virtual environment, an empty home, no checkout.
#     try_wheel.sh WHEEL [PYTHON [REQUIREMENT...]]      (as in: try_wheel.sh dist/*.whl python3.12 'pyspark==4.1.*')
# TRY=smoke leaves out the demonstration and the project that `penstock new` makes.
set -eu
wheel=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
python=${2:-python3}
[ $# -lt 2 ] || shift
shift
constraints=$(cd "$(dirname "$0")/.." && pwd)/constraints.txt
work=$(mktemp -d)
began=$(date +%s)
trap 'rm -rf "$work"' EXIT INT TERM
export HOME="$work/home" PENSTOCK_HOME="$work/home/.penstock"
export PIP_CACHE_DIR="${PIP_CACHE_DIR:-$("$python" -m pip cache dir 2>/dev/null || echo "$work/pip")}"
unset PYTHONDONTWRITEBYTECODE PYTHONPATH VIRTUAL_ENV SPARK_HOME PYSPARK_PYTHON 2>/dev/null || true
mkdir "$HOME"
cd "$work"

"$python" -m venv env
PATH="$work/env/bin:$PATH"
echo "Installing the wheel into an empty environment of $(python --version) ..."
if [ $# = 0 ]; then
    pip install -q --no-compile --disable-pip-version-check "$wheel" -c "$constraints"
else
    pip install -q --no-compile --disable-pip-version-check "$wheel" "$@"
fi
python - <<'EOF'
import importlib.metadata as metadata, penstock
told = [f"{name} {metadata.version(name)}" for name in ("penstock", "pyspark", "pyarrow", "numpy", "pandas")]
assert "site-packages" in penstock.__file__, penstock.__file__
print(", ".join(told))
EOF
penstock doctor

[ "${TRY:-all}" = smoke ] || penstock demo --events 20000

# Called like a module of Python's own, which must not matter.
cat >numbers.py <<'EOF'
"""Counts numbers by their last digit until it is stopped; then its savepoint says how many."""

from penstock.common import Types, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.state import ValueStateDescriptor


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2).enable_checkpointing(500)
env.get_checkpoint_config().set_checkpoint_storage_dir("checkpoints")
source = DataGeneratorSource(lambda i: i, rate_per_second=1000)
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
numbers.key_by(lambda i: i % 10, Types.LONG()).process(Count()).uid("digits").print()
env.execute("numbers")
EOF
try_savepoint() {
    penstock run -D penstock.slots.timeout="10 min" "$@" numbers.py >numbers.log 2>&1 &
    running=$!
    tries=0
    until [ -n "$(ls -d checkpoints/*/chk-* 2>/dev/null)" ]; do
        kill -0 $running 2>/dev/null || { cat numbers.log; echo "the job ended by itself" >&2; exit 1; }
        tries=$((tries + 1))
        [ $tries -lt 600 ] || { cat numbers.log; echo "no checkpoint in ten minutes" >&2; exit 1; }
        sleep 1
    done
    savepoint=$(penstock stop numbers --savepoint savepoints | tail -n 1)
    wait $running
    rm -rf checkpoints
    penstock state query "$savepoint" --operator digits --state count --key 7
}
try_savepoint
echo "Going on from the savepoint ..."
try_savepoint -s "$savepoint"

if [ "${TRY:-all}" != smoke ]; then
    penstock new shop
    cd shop  # what docs/start/first-job.md says; with the versions that are known to work
    pip install -q --no-compile --disable-pip-version-check -r requirements.txt -c "$constraints"
    pytest
    python job.py
    cd ..
fi
echo "The wheel works: $(du -sm env | cut -f1) MB installed, $(($(date +%s) - began)) s in all."
