#!/usr/bin/env bash
# Builds deploy/docker/Dockerfile with buildah into out/image: rootfs/ is the image's root, config.json its configuration.
#
# Usage: tools/image/build.sh (root; buildah, and mmdebstrap unless PULL=1)
#
# With PULL=1 the Dockerfile's bases come from their registry. Otherwise stand-ins of the same names are made of Debian's
# packages and the Go toolchain of this machine, so that no registry of images is needed: every step of the Dockerfile
# runs, on a Python of Debian's in place of the official image's.
set -euo pipefail
cd "$(dirname "$0")/../.."
dockerfile=deploy/docker/Dockerfile out=$PWD/out/image
mkdir -p "$out"
echo 'module image' >"$out/go.mod" # the files of layers are no packages of this module
store() { buildah --root "$out/storage" --runroot "$out/run" --storage-driver overlay "$@"; }
container=
leave() { # without a mount, so that the folder can be removed
  [ -z "$container" ] || { store umount "$container" && store rm "$container"; } >/dev/null
  umount "$out/storage/overlay" 2>/dev/null || true
}
trap leave EXIT

# stand_in REFERENCE: an image of that name.
stand_in() {
  local suite=${1##*-} packages base
  case $1 in
    golang:*) packages=ca-certificates,gcc,libc6-dev ;;
    python:*) packages=ca-certificates,python3-dev,python3-pip,python3-venv,python-is-python3 ;;
    *) echo "tools/image/build.sh: no stand-in for the base $1" >&2; exit 1 ;;
  esac
  base=$out/${1%%:*}-$suite.tar
  [ -e "$base" ] || { mmdebstrap --quiet --variant=minbase --include="$packages" "$suite" "$base.part" && mv "$base.part" "$base"; }
  container=$(store from scratch)
  store add --quiet "$container" "$base" / >/dev/null
  if [[ $1 == golang:* ]]; then
    store add --quiet "$container" "$(go env GOROOT)" /usr/local/go >/dev/null
    store config --env PATH=/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin --env GOPATH=/go --env GOTOOLCHAIN=local "$container"
  fi
  store commit --quiet --rm "$container" "docker.io/library/$1" >/dev/null
  container=
}

pull=never
if [ "${PULL:-}" = 1 ]; then pull=missing; else
  while IFS='=' read -r _ reference; do
    store inspect --type image "docker.io/library/$reference" >/dev/null 2>&1 || stand_in "$reference"
  done < <(grep -E '^ARG [A-Z]+_IMAGE=' "$dockerfile")
fi

# The machine's own caches and certificates, so that modules and packages come from where this machine gets them.
mkdir -p "$(go env GOMODCACHE)" "$(go env GOCACHE)"
volumes=(--volume "$(go env GOMODCACHE):/go/pkg/mod" --volume "$(go env GOCACHE):/root/.cache/go-build" --volume /etc/ssl/certs:/etc/ssl/certs:ro)
[ ! -e /etc/pip.conf ] || volumes+=(--volume /etc/pip.conf:/etc/pip.conf:ro)
store build --isolation chroot --network host --pull="$pull" --layers "${volumes[@]}" -f "$dockerfile" -t verigraph .

container=$(store from --pull=never verigraph)
rm -rf "$out/rootfs"
cp -a "$(store mount "$container")" "$out/rootfs"
store inspect --type image verigraph >"$out/config.json"
printf 'image: %s MiB\n' "$(du -sm "$out/rootfs" | cut -f1)"
