#!/bin/sh
# Builds the OpenTelemetry Collector of collector.yaml into .e2e/collector by the collector's own
# builder. Does nothing where it is there.
set -eu
cd "$(dirname "$0")/../.."
builder=go.opentelemetry.io/collector/cmd/builder@v0.161.0
manifest=tests/e2e/collector.yaml
folder=.e2e/collector
stamp=$folder/.installed.yaml

# The stamp is the manifest that was built, so another manifest builds again.
if cmp -s "$manifest" "$stamp"; then
    exit 0
fi
sh tests/e2e/has_go.sh 'The OpenTelemetry Collector' || exit 0

echo "Collector: building into $folder (a few minutes)"
rm -rf "$folder"
go run "$builder" --config "$manifest"
cp "$manifest" "$stamp"
