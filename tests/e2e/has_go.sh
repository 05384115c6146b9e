#!/bin/sh
# Succeeds where there is a Go that can build the program named as the argument; else says what is
# missing. Go 1.26 is what the collector asks for.
set -eu
wanted="$1 is built from source by Go >= 1.26"
if ! command -v go >/dev/null; then
    echo "$wanted, and there is no 'go' here: its tests will be skipped" >&2
    exit 1
fi
# "go1.26.8", or "go1.27rc1"
version=$(go env GOVERSION)
minor=${version#go1.}
minor=${minor%%[!0-9]*}
if [ "${minor:-0}" -lt 26 ]; then
    echo "$wanted, and this is $version: its tests will be skipped" >&2
    exit 1
fi
