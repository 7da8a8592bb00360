#!/usr/bin/env bash
# Runs the sandbox's tests in a virtual machine whose only control groups are of version 2: Debian's cloud kernel, and a root file
# system that holds the tests, the Python environment and the libraries that these need. Needs root (for the owners of the files),
# apt, dpkg-deb, mke2fs, ldd, qemu-system-x86_64 and /dev/kvm (or ACCEL=tcg).
# Usage: cgroup2.sh [groups|cells|hostile-zygote|hostile-fresh]. KERNEL names another package, e.g. linux-image-6.12-cloud-amd64; REUSE=1 takes the file system of the last run.
set -euo pipefail
cd "$(dirname "$0")/../.."
what=${1:-groups}
package=${KERNEL:-linux-image-cloud-amd64}
out=$PWD/out/vm
root=$out/root
mkdir -p "$out"

kernel() { # unpacks the kernel's package, which the named one depends on, and prints the path of its image
  local dir=$out/$package image
  if [ ! -d "$dir" ]; then
    image=$(apt-cache depends "$package" | awk '/Depends: linux-image-/ { print $2; exit }')
    mkdir -p "$out/deb" && (cd "$out/deb" && rm -f ./*.deb && apt-get download -qq "${image:-$package}" >&2 && dpkg-deb -x ./*.deb "$dir")
  fi
  ls "$dir"/boot/vmlinuz-*
}

take() { # copies paths into the root, each to where it is here
  tar -cf - --exclude=__pycache__ --exclude='*.a' --exclude='lib/python3*/test' -C / "${@#/}" | tar -xf - -C "$root"
}

libraries() { # what the loader needs for the programs and libraries among the paths
  find "$@" -type f \( -name '*.so*' -o -perm -u+x \) -print0 | xargs -0 ldd 2>/dev/null | awk '$3 ~ /^\// { print $3 } $1 ~ /^\/.*[^:]$/ { print $1 }' | sort -u
}

build() {
  local python=$PWD/.venv/sandbox base list
  base=$("$python/bin/python" -I -S -c 'import sys; print(sys.base_prefix, end="")')
  rm -rf "$root" && mkdir -p "$root"/{proc,sys,dev,run,tmp,etc,var/tmp,root,mnt,usr/{bin,sbin,lib,lib64}} "$root$PWD/sandbox"
  for d in bin sbin lib lib64; do ln -s "usr/$d" "$root/$d"; done
  CGO_ENABLED=0 go build -trimpath -o "$root$PWD/bin/" ./cmd/verigraph
  CGO_ENABLED=0 go test -c -o "$root$PWD/sandbox/sandbox.test" ./sandbox
  cp -r sandbox/testdata sandbox/helper "$root$PWD/sandbox/"
  local programs=()
  for p in sh bash mount umount mkdir cat ls sleep env chmod uname id rm tee; do programs+=("$(command -v "$p")"); done
  if [ "$base" = /usr ]; then
    list=("$python" /usr/lib/python3* /usr/bin/python3*)
  else
    list=("$python" "$base"/bin "$base"/lib/python3* "$base"/lib/libpython3*)
  fi
  take "${list[@]}"
  # Through the links, and under the names that programs ask for.
  tar -chf - -C / "${programs[@]#/}" $(libraries "${programs[@]}" "${list[@]}" | grep -v "^$python\|^/root" | sed 's|^/||; s|^lib|usr/lib|' | sort -u) | tar -xf - -C "$root"
  [ ! -d /usr/share/zoneinfo ] || take /usr/share/zoneinfo
  cp /etc/passwd /etc/group /etc/ld.so.cache "$root/etc/"
  chmod 1777 "$root/tmp" "$root/var/tmp"
  # Nobody must be able to reach the environment; other users of this machine are not there.
  install -m 755 tools/vm/guest.sh "$root/init"
  mke2fs -q -t ext4 -d "$root" -r 1 -N 0 -m 0 "$out/root.ext4" $(($(du -sm "$root" | cut -f1) + 600))M
}

case ${ACCEL:-kvm} in
kvm) accel=kvm cpu=host ;;
tcg) accel=tcg,thread=multi cpu=max ;; # without virtualisation, or where a nested one can't run the kernel: ten times slower
*) echo "ACCEL: want kvm or tcg" >&2 && exit 2 ;;
esac
image=$(kernel)
[ -n "${REUSE:-}" ] || build
log=$out/$what.log
# The disk is thrown away: -snapshot.
timeout "${LIMIT:-3600}" qemu-system-x86_64 -accel "$accel" -cpu "$cpu" -smp "${CPUS:-2}" -m "${MEMORY:-6G}" -nographic -no-reboot -nodefaults -serial stdio \
  -kernel "$image" -drive "file=$out/root.ext4,if=none,id=root,format=raw,snapshot=on" -device nvme,drive=root,serial=root \
  -append "root=/dev/nvme0n1 rw rootfstype=ext4 init=/init console=ttyS0 quiet panic=-1 cgroup_no_v1=all net.ifnames=0 -- $PWD $what" \
  </dev/null | tee "$log"
grep -q '^all of it passed' <(tr -d '\r' <"$log")
