#!/bin/sh
# Installs LiteLLM's proxy, which `make bench` measures beside spantap where it is there, in an
# environment of its own under .litellm (750 MB, a minute or two). Does nothing where it is there.
set -eu
cd "$(dirname "$0")/../.."
stamp=.litellm/.installed
[ -e "$stamp" ] && exit
rm -rf .litellm
${PYTHON:-python3} -m venv .litellm
.litellm/bin/python -m pip --disable-pip-version-check -q install \
    "litellm[proxy]" opentelemetry-sdk opentelemetry-exporter-otlp-proto-http
touch "$stamp"
