#!/bin/sh
# Fuzzes for so many seconds. atheris comes in an environment of its own, for it has wheels for few
# Pythons only; new inputs go to .cache, findings are told with the file that holds the input.
set -eu
seconds=$1
cd "$(dirname "$0")/../.."
cache=.cache/fuzz
mkdir -p "$cache/corpus"
if [ ! -x "$cache/venv/bin/python" ]; then
    "${PYTHON:-python3}" -m venv "$cache/venv"
fi
"$cache/venv/bin/python" -m pip install --disable-pip-version-check -q --no-deps --require-hashes \
    -r tests/fuzz/requirements.txt
"$cache/venv/bin/python" -m tests.fuzz.fuzz "$cache/corpus" tests/fuzz/corpus \
    -max_total_time="$seconds" -max_len=4096 -artifact_prefix="$cache/"
