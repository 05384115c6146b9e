#!/bin/sh
# Compiles the locks from pyproject.toml and locks/frameworks/*.in: every version with its hashes, for all
# platforms and Python >= 3.11. The smaller locks are held to the largest one.
set -eu
uv=${1:-uv}
cd "$(dirname "$0")/.."
compile() {
    "$uv" pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-annotate --no-header --quiet "$@"
}
compile --group dev --upgrade -o locks/dev.txt
compile -c locks/dev.txt --group demo -o locks/demo.txt
compile -c locks/dev.txt -o locks/run.txt
printf 'hatchling\neditables\n' |
    "$uv" pip compile - -c locks/dev.txt --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-annotate --no-header --quiet -o locks/build.txt
for group in deploy quickstarts clients agents; do
    "$uv" pip compile --group "$group" --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-annotate --no-header --quiet --upgrade -o "locks/$group.txt"
done
for framework in locks/frameworks/*.in; do
    without=${framework%.in}.without  # what it would bring, and no test needs
    [ -e "$without" ] || without=/dev/null
    "$uv" pip compile "$framework" --overrides "$without" --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-annotate --no-header --quiet --upgrade -o "${framework%.in}.txt"
done
