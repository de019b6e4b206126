#!/bin/sh
# The wheel with every Python and PySpark that it is for: test_matrix.sh WHEEL
# Installed, looked at by the doctor, one job on Spark, and a savepoint that it goes on from. What is not on this
# machine is named and left out. One line for each at the end; exit status 1 if any of those that ran failed.
set -u
wheel=$1
here=$(dirname "$0")
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT INT TERM

# A Python of that version: on the PATH, or one of pyenv's that is not.
find_python() {
    for python in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
        "$python" -c "import ensurepip, venv" >/dev/null 2>&1 && { echo "$python"; return; }
    done
}

result=0
for pair in ${PAIRS:-3.11:4.1 3.11:4.2 3.11:4.3 3.12:4.3 3.13:4.3}; do
    version=${pair%%:*} spark=${pair##*:}
    what="Python $version, PySpark $spark"
    python=$(find_python "$version")
    if [ -z "$python" ]; then
        echo "$what: not run, there is no such Python here" | tee -a "$log/summary"
    elif TRY=smoke sh "$here/try_wheel.sh" "$wheel" "$python" "pyspark==$spark.*" >"$log/run" 2>&1; then
        echo "$what: works, with $(sed -n 's/^penstock [^,]*, //p' "$log/run")" | tee -a "$log/summary"
    else
        result=1
        cat "$log/run"
        echo "$what: FAILED" | tee -a "$log/summary"
    fi
done
echo
cat "$log/summary"
exit $result
