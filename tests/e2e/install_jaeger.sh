#!/bin/sh
# Builds the real Jaeger 2.13, all in one process, into .e2e/jaeger. Does nothing where it is there.
# Its module has no /v2 in its path, so it goes by the tag of its twin, 1.76. 'go install' refuses a
# module with a 'replace'; built where the module cache has it, its own go.mod and go.sum count.
set -eu
cd "$(dirname "$0")/../.."
module=github.com/jaegertracing/jaeger@v1.76.0
folder=$PWD/.e2e/jaeger
stamp=$folder/.installed.txt

if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$module" ]; then
    exit 0
fi
sh tests/e2e/has_go.sh Jaeger || exit 0

echo "Jaeger: building into .e2e/jaeger (about 10 minutes on two cores)"
rm -rf "$folder"
go mod download "$module"
source=$(go list -m -f '{{.Dir}}' "$module")
go build -C "$source" -trimpath -ldflags '-s -w' -o "$folder/jaeger" ./cmd/jaeger
echo "$module" >"$stamp"
