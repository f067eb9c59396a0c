#!/usr/bin/env bash
# Tries what the README says on a fresh Debian: tests/fresh/machine.sh trixie|bookworm [--keep]
#
# Makes a machine with nothing on it (mmdebstrap) that shares this one's kernel, puts the last commit
# into it, and does there what a newcomer does: set-up, the main job, a run with access points, and
# `test --fast`.  Needs root, mmdebstrap, /dev/net/tun and 6 GB.  Ends with the first that fails.
set -euo pipefail

suite=${1:?usage: tests/fresh/machine.sh trixie|bookworm [--keep]}
project=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
fail() { printf 'machine.sh: %s\n' "$*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "needs root: run it with sudo"
command -v mmdebstrap >/dev/null || fail "needs mmdebstrap: apt-get install mmdebstrap"

work=$(mktemp -d "${TMPDIR:-/var/tmp}/fresh-$suite-XXXXXX")
root=$work/root
if [ "${2-}" = --keep ]; then
    trap 'printf "kept: %s\n" "$work" >&2' EXIT
else
    trap 'rm -rf --one-file-system "$work"' EXIT
fi
mmdebstrap --variant=minbase --include=ca-certificates,procps,git "$suite" "$root"
# A network with certificates of its own works in there, too.
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
cp --dereference /etc/resolv.conf /etc/hosts "$root/etc/"
git clone --quiet --no-hardlinks "$project" "$root/testbed"

cat >"$root/newcomer" <<'COMMANDS'
set -euo pipefail
cd /testbed
step() { printf '==> %s: %s s\n' "$1" "$SECONDS" >&2; }
. /etc/os-release
./run_testbed.sh setup
step "$PRETTY_NAME, $(python3 --version), $(java -version 2>&1 | head -n 1): set-up"
./run_testbed.sh
step "main job"
./run_testbed.sh run mesh_grid flooding --set side=2 --set nodes=6 --duration 25
step "mesh_grid"
./run_testbed.sh test --fast
./run_testbed.sh test -m 'slow and not root and not vm and not spark'
step "test --fast"
COMMANDS

# A root of its own by pivot_root: a chroot cannot make the namespaces that stations are.
unshare --mount --pid --ipc --uts --fork --kill-child bash -euo pipefail -c '
    root=$1
    mount --make-rprivate /
    mount --bind "$root" "$root"
    cd "$root"
    mount -t proc proc proc
    mount --rbind /sys sys
    mount --rbind /dev dev
    mount -t tmpfs tmpfs run
    mkdir -p before
    pivot_root . before
    umount --lazy /before
    exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
        LANG=C.UTF-8 PIP_CERT=/etc/ssl/certs/ca-certificates.crt bash /newcomer
' - "$root"
printf 'machine.sh: %s: all of it works\n' "$suite"
