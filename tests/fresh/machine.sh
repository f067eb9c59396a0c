#!/usr/bin/env bash
# Tries what the README says on a fresh Debian: tests/fresh/machine.sh bookworm|trixie [--repeat N] [--all] [--keep]
#
# Makes a machine with nothing on it (mmdebstrap) that shares this one's kernel but has processes and a
# network of its own, puts the last commit into it, and does there what a newcomer does: set-up, the
# main job, a run with access points, and the test command, N times.  Needs root, mmdebstrap,
# slirp4netns, /dev/net/tun and 8 GB.  Ends with the first step that fails.
set -euo pipefail

fail() { printf 'machine.sh: %s\n' "$*" >&2; exit 1; }
usage() { fail "usage: tests/fresh/machine.sh bookworm|trixie [--repeat N] [--all] [--keep]"; }
suite='' keep='' all='' repeat=1
while [ $# -gt 0 ]; do
    case $1 in
        --keep) keep=yes ;;
        --all) all=--all ;;
        --repeat) [[ ${2-} =~ ^[1-9][0-9]*$ ]] || usage; repeat=$2; shift ;;
        -*) usage ;;
        *) [ -z "$suite" ] || usage; suite=$1 ;;
    esac
    shift
done
[ -n "$suite" ] || usage
project=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
[ "$(id -u)" = 0 ] || fail "needs root: run it with sudo"
for program in mmdebstrap slirp4netns; do
    command -v "$program" >/dev/null || fail "needs $program: apt-get install $program"
done

work=$(mktemp -d "${TMPDIR:-/var/tmp}/fresh-$suite-XXXXXX")
root=$work/root
cleanup() {
    [ -z "${network-}" ] || kill "$network" 2>/dev/null || true
    # unshare --fork ignores the gentler signals; all of the machine ends with its first process.
    [ -z "${machine-}" ] || kill -KILL "$machine" 2>/dev/null || true
    wait
    if [ -n "$keep" ]; then printf 'kept: %s\n' "$work" >&2; else rm -rf --one-file-system "$work"; fi
}
trap cleanup EXIT
trap 'exit 130' INT TERM

mmdebstrap --variant=minbase --include=ca-certificates,procps,git "$suite" "$root"
# A network with certificates of its own works in there, too.
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
cp --dereference /etc/hosts "$root/etc/"
echo 'nameserver 10.0.2.3' >"$root/etc/resolv.conf" # slirp4netns hands questions on
git clone --quiet --no-hardlinks "$project" "$root/testbed"

cat >"$root/newcomer" <<'COMMANDS'
set -euo pipefail
cd /testbed
step() { printf '==> %s: %s s\n' "$1" "$SECONDS" >&2; SECONDS=0; }
. /etc/os-release
./run_testbed.sh setup
step "$PRETTY_NAME, $(python3 --version), $(java -version 2>&1 | head -n 1): set-up"
./run_testbed.sh
step "main job"
./run_testbed.sh run mesh_grid flooding --set side=2 --set nodes=6 --duration 25
step "mesh_grid"
for ((time = 1; time <= $1; time++)); do
    ./run_testbed.sh test ${2:+"$2"}
    step "test, $time of $1"
done
COMMANDS

# A root of its own by pivot_root: a chroot cannot make the namespaces that stations are.
unshare --mount --pid --net --ipc --uts --fork --kill-child bash -euo pipefail -c '
    root=$1
    mount --make-rprivate /
    mount --bind "$root" "$root"
    cd "$root"
    mount -t proc proc proc
    mount -t sysfs sys sys
    mount --rbind /sys/fs/cgroup sys/fs/cgroup
    mount --rbind /dev dev
    mount -t tmpfs tmpfs run
    mkdir -p before
    pivot_root . before
    umount --lazy /before
    until [ -e /sys/class/net/tap0 ]; do sleep 0.1; done
    exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
        LANG=C.UTF-8 PIP_CERT=/etc/ssl/certs/ca-certificates.crt bash /newcomer "$2" "$3"
' - "$root" "$repeat" "$all" </dev/null &
machine=$!
until inside=$(pgrep --parent "$machine") && [ -n "$inside" ]; do
    kill -0 "$machine" 2>/dev/null || fail "the machine did not start"
    sleep 0.1
done
slirp4netns --configure --mtu=65520 "$inside" tap0 >"$work/network.log" 2>&1 &
network=$!
status=0
wait -n -p ended "$machine" "$network" || status=$?
# Without its network the machine would wait for ever.
[ "$ended" = "$machine" ] || fail "slirp4netns ended: $(cat "$work/network.log")"
[ "$status" = 0 ] || exit "$status"
printf 'machine.sh: %s: all of it works\n' "$suite"
