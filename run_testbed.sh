#!/usr/bin/env bash
# The one command of the testbed: sets up on first use, then hands over to its command line.
set -euo pipefail

project=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" && pwd)
venv=$project/.venv
ryu=$project/.ryu
stamp=$venv/.testbed-setup
log=$project/.setup.log
system_python=/usr/bin/python3

# mininet: namespaces and CLI; tshark: checks the dissector in the tests; a Java runtime: Spark;
# net-tools, iputils-ping: what people type at the Mininet prompt; openvswitch-switch: the bridges of
# mesh access points, started by each run for itself.
packages=(mininet python3-venv iproute2 net-tools iputils-ping tcpdump tshark openvswitch-switch)

say() { printf '==> %s\n' "$*" >&2; }
fail() { printf 'run_testbed.sh: %s\n' "$*" >&2; exit 1; }
installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

java_version() {
    local line
    line=$(java -version 2>&1 | head -n 1) || return 1
    line=${line#*\"}
    printf '%s' "${line%%[.\"-]*}"
}

missing_packages() {
    local package version
    for package in "${packages[@]}"; do
        installed "$package" || printf '%s\n' "$package"
    done
    version=$(java_version || true)
    if ! [[ $version =~ ^[0-9]+$ ]] || [ "$version" -lt 17 ]; then
        printf '%s\n' openjdk-JRE
    fi
}

resolve_java() { # the newest Java that Spark 4 runs on and this release has
    local version
    for version in 21 17; do
        # Of a package that others only name it shows nothing, without an error.
        if [ -n "$(apt-cache show "openjdk-$version-jre-headless" 2>/dev/null)" ]; then
            printf 'openjdk-%s-jre-headless' "$version"
            return
        fi
    done
    fail "this release has no Java 17 or 21; install one by hand and start again"
}

install_packages() {
    local missing=("$@") index
    command -v apt-get >/dev/null ||
        fail "needs Debian or Ubuntu; elsewhere install by hand: ${packages[*]} and Java 17 or later"
    [ "$(id -u)" = 0 ] ||
        fail "set-up installs packages (${missing[*]}): run it once with sudo: sudo $0 setup"
    say "installing Debian packages: ${missing[*]} (log: $log)"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update >>"$log" 2>&1 || fail "apt-get update failed; see the end of $log"
    for index in "${!missing[@]}"; do
        [ "${missing[$index]}" != openjdk-JRE ] || missing[index]=$(resolve_java)
    done
    # Mininet recommends Open vSwitch and more; a run over radios alone needs none of it.
    apt-get install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1 ||
        fail "apt-get install failed; see the end of $log"
}

make_venv() {
    "$system_python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "needs Python 3.11 or later at $system_python (Debian 12, Ubuntu 24.04 or newer)"
    if ! "$venv/bin/python" -c pass 2>/dev/null; then
        say "making the virtual environment $venv"
        rm -rf "$venv"
        "$system_python" -m venv --system-site-packages "$venv" >>"$log" 2>&1 ||
            fail "cannot make $venv; see the end of $log"
    fi
    say "installing Python packages (about 500 MB; a few minutes)"
    "$venv/bin/python" -m pip install --disable-pip-version-check -r "$project/requirements.txt" \
        >>"$log" 2>&1 || fail "pip failed; see the end of $log"
}

make_ryu() { # without it all but mesh access points works, so a failure is said and no more
    local wanted build
    wanted=$(sha256sum <"$project/requirements-ryu.txt")
    [ "$(cat "$ryu/.testbed-setup" 2>/dev/null)" != "$wanted" ] || return 0
    say "installing the Ryu controller in $ryu"
    mapfile -t build < <(grep -oE '^(setuptools|wheel|pbr)==[^ ]+' "$project/requirements-ryu.txt")
    rm -rf "$ryu"
    if "$system_python" -m venv "$ryu" >>"$log" 2>&1 &&
        "$ryu/bin/pip" install --disable-pip-version-check "${build[@]}" >>"$log" 2>&1 &&
        "$ryu/bin/pip" install --disable-pip-version-check --no-build-isolation \
            -r "$project/requirements-ryu.txt" >>"$log" 2>&1 &&
        "$ryu/bin/python" -W ignore -c 'import eventlet.wsgi, ryu.cmd' >>"$log" 2>&1; then
        printf '%s\n' "$wanted" >"$ryu/.testbed-setup"
    else
        rm -rf "$ryu"
        say "Ryu cannot be installed, so there are no mesh access points; see the end of $log"
    fi
}

compile() { # without it all works, but slower, so a failure is said and no more
    say "compiling what runs spend their time in (under a minute)"
    PYTHONPATH=$project "$venv/bin/python" -m testbed compile --if-needed >>"$log" 2>&1 ||
        say "not compiled, so runs take twice as long: $(tail -n 1 "$log")"
}

setup() {
    local wanted missing
    wanted=$(cat "$project"/requirements*.txt "${BASH_SOURCE[0]}" | sha256sum)
    if [ -x "$venv/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
        return
    fi
    # Two first uses at once: the second waits and then finds everything there.
    exec 9>"$project/.setup.lock" || fail "cannot write to $project: run it with sudo, or chown it"
    flock 9
    if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
        : >"$log"
        mapfile -t missing < <(missing_packages)
        if [ "${#missing[@]}" -gt 0 ]; then install_packages "${missing[@]}"; fi
        make_venv
        make_ryu
        compile
        printf '%s\n' "$wanted" >"$stamp"
        say "set-up is complete"
    fi
    flock -u 9
    exec 9>&-
}

setup
export PYTHONPATH=$project${PYTHONPATH:+:$PYTHONPATH}
if [ "${1-}" = setup ]; then
    [ ! -w "$project" ] || "$venv/bin/python" -m testbed compile --if-needed || true
    say "ready: $project/run_testbed.sh --help"
    exit 0
fi
exec "$venv/bin/python" -m testbed "$@"
