#!/bin/sh
# Makes a base for the image where no registry is at hand: Debian with its Python, by debootstrap,
# into buildah's storage. As root:
#
#     deploy/image/base.sh [NAME]
#
# Debian: apt-get install buildah debootstrap
set -eu

name=${1:-localhost/spantap-base}
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT

debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv \
    "${SUITE:-bookworm}" "$work/root" "${MIRROR:-http://deb.debian.org/debian}"
cd "$work/root"
# As in the images of Python: no byte code, no documentation, no lists of packages.
find usr/lib/python3* -name __pycache__ -prune -exec rm -rf {} +
find usr/share/doc usr/share/locale usr/share/man -type f ! -name copyright -delete
rm -rf var/cache/apt/* var/cache/debconf/*-old var/lib/apt/lists/* var/log/*
cd /

container=$(buildah from scratch)
buildah add --quiet "$container" "$work/root" / >/dev/null
buildah config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
buildah commit --quiet --rm --format docker "$container" "$name"
