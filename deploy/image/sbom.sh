#!/bin/sh
# Lists the Python packages of an image that was unpacked to ROOT, as CycloneDX in JSON:
#
#     deploy/image/sbom.sh ROOT FILE
#
# Needs the tools of `make deploy`. The list is that of the image itself: nothing in it is run.
set -eu

root=$(realpath "$1")
file=$(realpath "$2")
here=$(realpath "$(dirname "$0")/../..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What cyclonedx-py asks of an interpreter is its path of modules.
packages=$(echo "$root"/opt/spantap/lib/python3*/site-packages)
printf '#!/bin/sh\nprintf '\''["%%s"]'\'' "%s"\n' "$packages" >"$work/python"
chmod +x "$work/python"
"$here/.deploy/bin/cyclonedx-py" environment --output-reproducible --output-format JSON \
    --output-file "$file" "$work/python"
