#!/bin/sh
# Downloads the wheels that the image is built from into deploy/image/wheels, so that the build
# fetches nothing. PYTHON has the version and the platform of the base's:
#
#     deploy/image/wheels.sh [PYTHON]
set -eu

python=${1:-python3}
cd "$(dirname "$0")/../.."
for lock in build run; do
    "$python" -m pip --disable-pip-version-check download --quiet --no-deps --require-hashes \
        --only-binary :all: --dest deploy/image/wheels -r "locks/$lock.txt"
done
