#!/usr/bin/env bash
# The one command of the testbed: sets up on first use, then hands over to its command line.
set -euo pipefail

project=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" && pwd)
venv=$project/.venv
ryu=$project/.ryu
log=$project/.setup.log
system_python=/usr/bin/python3

# What runs and analyses need.  mininet: namespaces and CLI; net-tools, iputils-ping: what people type at the
# Mininet prompt; openvswitch-switch: the bridges of mesh access points, started by each run for itself;
# gcc, libc6-dev, python3-dev: machine code for what runs spend their time in.  And Java, for Spark.
packages=(mininet python3-venv iproute2 net-tools iputils-ping tcpdump openvswitch-switch
    gcc libc6-dev python3-dev)
say() { printf '==> %s\n' "$*" >&2; }
fail() { printf 'run_testbed.sh: %s\n' "$*" >&2; exit 1; }
interrupted() { # until the testbed handles it itself; a second Ctrl-C ends at once
    trap - INT
    printf 'interrupted%s\n' "${resumes-}" >&2
    ! kill -0 "${debian-}" 2>/dev/null || say "waiting for the Debian packages"
    exit 130
}
trap interrupted INT
trap wait EXIT
others=()
beside() { "$@" & others+=($!); } # STEP...: done in the background, until `finish`
finish() {
    local other
    for other in "${others[@]}"; do wait "$other" || exit 1; done # it has said why
    others=()
}
installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

java_version() { # after lines about JDK_JAVA_OPTIONS and the like
    local text
    text=$(java -version 2>&1) || return 1
    if [[ $text =~ version\ \"([0-9]+) ]]; then printf '%s' "${BASH_REMATCH[1]}"; fi
}

missing_packages() { # of those named, and Java if it is among them
    local package version
    for package in "$@"; do
        if [ "$package" = openjdk-JRE ]; then
            version=$(java_version || true)
            if ! [[ $version =~ ^[0-9]+$ ]] || [ "$version" -lt 17 ]; then printf '%s\n' "$package"; fi
        else
            installed "$package" || printf '%s\n' "$package"
        fi
    done
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

apt() { # waits for others that use apt, such as unattended upgrades of a fresh machine
    local output waited=0
    until output=$(LC_ALL=C apt-get "$@" 2>&1); do
        printf '%s\n' "$output" >>"$log"
        if ! [[ $output =~ (Could not get lock|Unable to lock|Unable to acquire) ]] || [ "$waited" -ge 900 ]; then
            fail "apt-get $1 failed: $(grep '^E: ' <<<"$output" | head -n 1) (all of it: $log)"
        fi
        [ "$waited" -gt 0 ] || say "waiting for another program to finish with apt: $(
            grep -oE '(lock|lock directory) /[^ ]*|held by process .*' <<<"$output" | tr '\n' ' ')"
        sleep 2
        waited=$((waited + 2))
    done
    printf '%s\n' "$output" >>"$log"
}

can_install() { # PACKAGE...: fails if some are missing and cannot be installed
    local missing
    mapfile -t missing < <(missing_packages "$@")
    if [ "${#missing[@]}" -eq 0 ]; then return; fi
    command -v apt-get >/dev/null ||
        fail "needs Debian or Ubuntu; elsewhere install by hand: ${packages[*]} and Java 17 or later"
    [ "$(id -u)" = 0 ] ||
        fail "set-up installs packages (${missing[*]}): run it once with sudo: sudo $0 setup"
}

install_packages() { # one at a time on this host, however many checkouts and processes want to
    local missing index
    can_install "$@"
    mapfile -t missing < <(missing_packages "$@")
    if [ "${#missing[@]}" -eq 0 ]; then return; fi
    exec 8>/run/testbed-packages.lock
    flock --nonblock 8 || { say "waiting for another set-up to install packages"; flock 8; }
    mapfile -t missing < <(missing_packages "$@")
    if [ "${#missing[@]}" -gt 0 ]; then
        say "installing Debian packages: ${missing[*]} (log: $log)"
        export DEBIAN_FRONTEND=noninteractive
        apt update
        for index in "${!missing[@]}"; do
            [ "${missing[$index]}" != openjdk-JRE ] || missing[index]=$(resolve_java)
        done
        # Mininet recommends Open vSwitch and more; a run over radios alone needs none of it.
        apt install -y --no-install-recommends "${missing[@]}"
    fi
    exec 8>&-
}

install_whole() { # Debian's packages that are ended half-way have to be repaired by hand
    trap '' INT
    install_packages "$@"
}

make_venv() {
    "$system_python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "needs Python 3.11 or later at $system_python (Debian 12, Ubuntu 24.04 or newer)"
    if ! "$venv/bin/python" -c pass 2>/dev/null ||
        grep -q 'system-site-packages = true' "$venv/pyvenv.cfg"; then
        say "making the virtual environment $venv"
        rm -rf "$venv"
        "$system_python" -m venv "$venv" >>"$log" 2>&1 || fail "cannot make $venv; see the end of $log"
    fi
    say "installing Python packages (about 500 MB; a few minutes)"
    # All that compiling needs; Spark is as large as all of it, and comes beside the compiler.
    pip_install "$venv" <(sed '/^pyspark==/,/[^\\]$/d' "$project/requirements/run.lock") --no-compile ||
        fail "pip failed; see $log"
}

install_spark() { # and prepare Java, which takes as long as the compiler
    trap 'exit 130' INT
    pip_install "$venv" "$project/requirements/run.lock" --no-compile || fail "pip failed; see $log"
    PYTHONPATH=$project "$venv/bin/python" -m testbed.class_data >>"$log" 2>&1 ||
        say "not prepared, so analyses start slower: $(tail -n 1 "$log")"
}

pip_install() { # ENVIRONMENT LOCK [OPTION...]
    "$1/bin/python" -m pip install --disable-pip-version-check --require-hashes "${@:3}" -r "$2" \
        >>"$log" 2>&1
}

link_packages() { # Of the system's packages, Mininet's are all that the environment sees; and what Spark looks for
    ln -sfn ../../../../spark_analysis/captures/pyspark_pcap "$(echo "$venv"/lib/python3*/site-packages)/pyspark_pcap"
    "$system_python" - "$venv"/lib/python3*/site-packages <<'PYTHON'
import importlib.util, pathlib, sys
for name in ("mininet", "mn_wifi"):
    link, spec = pathlib.Path(sys.argv[1], name), importlib.util.find_spec(name)
    if link.is_symlink():
        link.unlink()
    if spec is not None:
        link.symlink_to(spec.submodule_search_locations[0])
PYTHON
}

make_ryu() { # without it all but mesh access points works, so a failure is said and no more
    local wanted
    trap 'exit 130' INT
    wanted=$(cat "$project"/requirements/{ryu,os-ken}.lock | sha256sum)
    if [ "$(cat "$ryu/.testbed-setup" 2>/dev/null)" = "$wanted" ]; then
        write_manager
        return
    fi
    say "installing the Ryu controller in $ryu"
    if install_ryu || { say "Ryu cannot be installed; installing os-ken in its place" && install_os_ken; }; then
        write_manager
        printf '%s\n' "$wanted" >"$ryu/.testbed-setup"
    else
        rm -rf "$ryu"
        say "nor can os-ken, so there are no mesh access points; see the end of $log"
    fi
}

write_manager() { # Ryu's own command does not start with the eventlet of today
    local name=ryu-manager
    [ -e "$ryu/bin/$name" ] || name=osken-manager
    {
        printf '#!/bin/sh\nPYTHONPATH=%q${PYTHONPATH:+:$PYTHONPATH} ' "$project"
        printf 'exec %q -W ignore -m emulation.network.controller.manager "$@"\n' "$ryu/bin/python"
    } >"$ryu/bin/$name.new"
    chmod 755 "$ryu/bin/$name.new"
    mv "$ryu/bin/$name.new" "$ryu/bin/$name"
}

install_ryu() {
    rm -rf "$ryu"
    "$system_python" -m venv "$ryu" >>"$log" 2>&1 &&
        pip_install "$ryu" <(sed -nE '/^(setuptools|wheel|pbr)==/,/[^\\]$/p' "$project/requirements/ryu.lock") &&
        pip_install "$ryu" "$project/requirements/ryu.lock" --no-build-isolation &&
        "$ryu/bin/python" -W ignore -c 'import eventlet.wsgi, ryu.cmd' >>"$log" 2>&1
}

install_os_ken() { # Ryu's maintained fork
    rm -rf "$ryu"
    "$system_python" -m venv "$ryu" >>"$log" 2>&1 &&
        pip_install "$ryu" "$project/requirements/os-ken.lock" &&
        "$ryu/bin/python" -W ignore -c 'import eventlet.wsgi, os_ken.base' >>"$log" 2>&1
}

current() { [ -x "$venv/bin/python" ] && [ "$(cat "$1" 2>/dev/null)" = "$2" ]; } # STAMP WANTED

setup() { # for runs, and for tests if the argument is `test`
    local wanted purpose=${1-run} stamp=$venv/.testbed-setup
    wanted=$(cat "$project"/requirements/*.lock "${BASH_SOURCE[0]}" | sha256sum)
    if current "$stamp" "$wanted" && { [ "$purpose" = run ] || current "$stamp-test" "$wanted"; }; then
        return
    fi
    # Two first uses at once: the second waits and then finds everything there.
    exec 9>"$project/.setup.lock" || fail "cannot write to $project: run it with sudo, or chown it"
    flock 9
    : >"$log"
    resumes=": the next start goes on from here"
    if ! current "$stamp" "$wanted"; then
        can_install "${packages[@]}" openjdk-JRE
        install_packages python3-venv
        beside install_whole "${packages[@]}" openjdk-JRE
        debian=$!
        beside make_ryu
        make_venv
        beside install_spark
        wait "$debian" || exit 1 # the C compiler is one of them
        link_packages
        say "compiling what runs spend their time in (under a minute)"
        PYTHONPATH=$project "$venv/bin/python" -m testbed.compiling >>"$log" 2>&1 ||
            say "not compiled, so runs take twice as long: $(tail -n 1 "$log")"
        "$venv/bin/python" -m compileall -q "$venv" >>"$log" 2>&1 || true # pip would make Java wait for it
        finish
        printf '%s\n' "$wanted" >"$stamp"
    fi
    if [ "$purpose" = test ] && ! current "$stamp-test" "$wanted"; then
        setup_for_tests
        printf '%s\n' "$wanted" >"$stamp-test"
    fi
    say "set-up is complete"
    resumes=
    flock -u 9
    exec 9>&-
}

setup_for_tests() { # without root, tests of the dissector, of figures for print and of the virtual machine are skipped
    local machine
    say "installing what tests need"
    if [ "$(id -u)" = 0 ]; then
        machine=$(PYTHONPATH=$project "$venv/bin/python" -m emulation.vm.tools)
        # shellcheck disable=SC2086  # a word a package
        beside install_whole tshark poppler-utils librsvg2-bin mosquitto-clients $machine
        debian=$!
    fi
    pip_install "$venv" "$project/requirements/dev.lock" || fail "pip failed; see $log"
    finish
    if [ "$(id -u)" = 0 ]; then
        install_with mqtt,babel,batman,mqtt-clients
    fi
}

install_with() { # NAME,...: middlewares, and what routes beneath them
    local name known=0 all="mqtt, zeromq, zenoh, dds, nats, gossipsub, mqtt-clients, babel, batman"
    log=$project/.setup.log
    for name in ${1//,/ }; do
        case $name in
            mqtt) known=1; install_daemons mosquitto ;;
            babel) known=1; install_daemons babeld ;;
            batman) known=1; install_daemons batmand ;;
            nats) known=1; install_daemons nats-server ;;
            zeromq | zenoh | dds | gossipsub | mqtt-clients) known=1 ;;
            *) fail "there is no $name to set up: $all" ;;
        esac
        if [ -e "$project/requirements/$name.lock" ]; then
            pip_install "$venv" "$project/requirements/$name.lock" || fail "pip failed; see $log"
        fi
    done
    [ "$known" = 1 ] || fail "usage: $0 setup [test] [--with NAME,...]: $all"
}

install_daemons() { # runs start them for themselves: Debian's own services stay off
    local missing
    mapfile -t missing < <(missing_packages "$@")
    install_packages "$@"
    if [ "${#missing[@]}" -gt 0 ] && [ -d /run/systemd/system ]; then
        systemctl disable --now "${missing[@]}" >>"$log" 2>&1 || true
    fi
}

case ${1-} in
    install-packages) # what the virtual machine needs of Debian, for `vm build`
        log=/var/log/testbed-packages.log
        install_packages "${@:2}"
        exit
        ;;
    test) setup test ;;
    setup)
        purpose=run chosen=- # nothing beside
        for word in "${@:2}"; do
            case $word in
                test) purpose=test ;;
                --with) chosen=next ;;
                --with=*) chosen=${word#*=} ;; # may be empty: refused
                *) [ "$chosen" = next ] || fail "usage: $0 setup [test] [--with NAME,...]"; chosen=$word ;;
            esac
        done
        [ ! -e "$venv" ] || [ -w "$venv" ] || fail "$venv is another user's: sudo $0 setup"
        setup "$purpose"
        [ "$chosen" = - ] || install_with "$chosen"
        ;;
    *) setup ;;
esac
export PYTHONPATH=$project${PYTHONPATH:+:$PYTHONPATH}
if [ "${1-}" = setup ]; then
    link_packages # Mininet-WiFi may have come since
    [ ! -w "$project" ] || "$venv/bin/python" -m testbed.compiling || true
    say "ready: $project/run_testbed.sh --help"
    exit 0
fi
exec env --block-signal=INT "$venv/bin/python" -m testbed "$@" # until it can say that it was interrupted
