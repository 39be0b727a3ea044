#!/bin/sh
# Runs a command in a Debian 13 root: debian-13.sh COMMAND [ARGUMENT]...
# The first run makes the root with debootstrap in a cache folder. The packages come from the mirror in DEBIAN_MIRROR, or
# from the one in the machine's own sources. The command sees the current folder at the same path, the machine's
# network, devices and kubectl, and no other program of the machine. If the root cannot be made, the script prints the
# reason and exits with 75.
set -eu

release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release 2>/dev/null || true)
mirror=${DEBIAN_MIRROR:-$(apt-get update --quiet=0 --print-uris 2>/dev/null |
    sed -n "s|^'\([^ ]*\)/dists/${release:-none}/.*|\1|p" | head -n 1)}
packages=ca-certificates,gcc,git,iproute2,libc6-dev,make,procps,python3,python3-dev,python3-venv,runc
cache=${XDG_CACHE_HOME:-$HOME/.cache}/dradriver/debian-13
root=$cache/root

find_missing() {
    [ "$(id -u)" = 0 ] || { echo "only root can make a Debian root"; return; }
    for each in apt-get dpkg-deb unshare pivot_root flock; do
        command -v "$each" >/dev/null || { echo "$each is not installed"; return; }
    done
    [ -n "$mirror" ] || { echo "no source of apt has the release ${release:-of this machine}: set DEBIAN_MIRROR"; return; }
    unshare --mount true 2>/dev/null || { echo "mount namespaces are not permitted here"; return; }
    [ -e "$root/.complete" ] || python3 -c "
import sys, urllib.request
urllib.request.urlopen(sys.argv[1], timeout=20).read(1)" "$mirror/dists/trixie/Release" 2>/dev/null ||
        echo "$mirror does not answer"
}

# debootstrap is a shell script: its package is unpacked, not installed.
make_root() {
    rm -rf "$cache/new" "$cache/debootstrap"
    mkdir -p "$cache/debootstrap"
    (
        cd "$cache/debootstrap" &&
            { apt-get -qq download debootstrap || { apt-get -qq update && apt-get -qq download debootstrap; }; } &&
            dpkg-deb --extract debootstrap_*.deb .
    ) >&2 || return 1
    echo "making a Debian 13 root, about 2 minutes" >&2
    if ! DEBOOTSTRAP_DIR=$cache/debootstrap/usr/share/debootstrap "$cache/debootstrap/usr/sbin/debootstrap" \
        --variant=minbase --include="$packages" trixie "$cache/new" "$mirror" >"$cache/log" 2>&1; then
        tail -n 20 "$cache/log" >&2
        return 1
    fi
    rm -rf "$cache/new/var/cache/apt/archives" "$cache/new/var/lib/apt/lists" "$root"
    touch "$cache/new/.complete"
    mv "$cache/new" "$root"
}

if [ "$1" = --inside ]; then
    # In a mount namespace of its own. runc needs a root that is a mount point, so chroot is not enough.
    root=$2 folder=$3
    shift 3
    mount --make-rprivate /
    mount --rbind "$root" "$root"
    for each in dev proc sys; do
        mount --rbind "/$each" "$root/$each"
    done
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    mkdir -p "$root$folder"
    mount --bind "$folder" "$root$folder"
    cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
    cp -L /etc/hosts "$root/etc/hosts"
    # The machine may trust more authorities, such as that of a proxy.
    bundle=/etc/ssl/certs/ca-certificates.crt
    [ ! -e "$bundle" ] || mount --bind "$bundle" "$root$bundle"
    if kubectl=$(command -v kubectl); then
        touch "$root/usr/local/bin/kubectl"
        mount --bind "$kubectl" "$root/usr/local/bin/kubectl"
    fi
    cd "$root"
    pivot_root . .
    umount -l .
    cd "$folder"
    exec env -u XDG_CACHE_HOME -u PIP_FIND_LINKS -u VIRTUAL_ENV -u PYTHONPATH HOME=/root LANG=C.UTF-8 \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
fi

reason=$(find_missing)
[ -z "$reason" ] || { echo "no Debian 13 root: $reason" >&2; exit 75; }
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
if [ ! -e "$root/.complete" ]; then
    make_root || { echo "no Debian 13 root: debootstrap failed" >&2; exit 75; }
fi
flock -u 9
exec unshare --mount sh "$0" --inside "$root" "$PWD" "$@"
