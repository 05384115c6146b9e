#!/bin/sh
# Builds the image of this checkout; of the same commit and the same bases it is the same image.
#
#     deploy/image/build.sh docker|buildah NAME [OPTION...]
#
# Options go to the builder, such as --build-arg PIP_NO_INDEX=1. SOURCE_DATE_EPOCH is by default the time
# of the commit. docker needs a builder of the driver docker-container (`docker buildx create --use`):
# its default one refuses rewrite-timestamp, or ignores it.
set -eu

builder=$1
name=$2
shift 2
cd "$(dirname "$0")/../.."
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
set -- --file deploy/Dockerfile --tag "$name" \
    --build-arg "VERSION=$(python3 .github/release.py version)" \
    --build-arg "REVISION=$(git describe --always --abbrev=40 --dirty --exclude '*')" "$@"
case $builder in
docker) exec docker buildx build --output type=docker,rewrite-timestamp=true "$@" . ;;
buildah) exec buildah bud --format docker --timestamp "$SOURCE_DATE_EPOCH" "$@" . ;;
*) echo "build.sh: docker or buildah, not $builder" >&2 && exit 2 ;;
esac
