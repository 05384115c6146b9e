#!/bin/sh
# Installs what the end-to-end tests talk to: Phoenix, in an environment of its own under .e2e (it
# brings 160 packages, and its licence makes it a test tool only), Debian's chromium, axe-core, Jaeger
# and the OpenTelemetry Collector. Does nothing where they are there.
# Phoenix's versions are those of phoenix.txt, compiled by
#   echo arize-phoenix==20.26.1 | uv pip compile - --universal --python-version 3.11 \
#       --no-emit-index-url --no-emit-find-links --no-annotate --no-header -o tests/e2e/phoenix.txt
set -eu
cd "$(dirname "$0")/../.."
python=.venv/bin/python
versions=tests/e2e/phoenix.txt
phoenix=.e2e/phoenix
stamp=$phoenix/.installed.txt

# The stamp is the list that was installed, so another list installs again.
if ! cmp -s "$versions" "$stamp"; then
    echo "Phoenix: installing into $phoenix (about a minute, 850 MB)"
    rm -rf "$phoenix"
    "$python" -m venv "$phoenix"
    "$phoenix/bin/python" -m pip --disable-pip-version-check -q install --no-deps -r "$versions"
    cp "$versions" "$stamp"
fi

if ! command -v chromium >/dev/null; then
    if ! command -v apt-get >/dev/null; then
        echo "chromium is missing and there is no apt-get: install it so that 'chromium' runs" >&2
        exit 1
    fi
    if [ "$(id -u)" -ne 0 ]; then
        echo "chromium is missing: run 'apt-get install chromium' as root, then 'make e2e'" >&2
        exit 1
    fi
    echo "chromium: installing Debian's package"
    apt-get -q update
    DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends \
        chromium fonts-liberation
fi

# What looks for barriers in the page. Where there is no Node its tests tell so.
for list in package.json package-lock.json; do
    if ! cmp -s "tests/e2e/node/$list" ".e2e/node/$list"; then
        mkdir -p .e2e/node
        cp tests/e2e/node/*.json .e2e/node/
        (cd .e2e/node && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
    fi
done

sh tests/e2e/install_jaeger.sh
sh tests/e2e/install_collector.sh
