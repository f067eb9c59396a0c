#!/usr/bin/env bash
# The one command of the testbed: sets up on first use, then hands over to its command line.
set -euo pipefail

project=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" && pwd)
venv=$project/.venv
ryu=$project/.ryu
stamp=$venv/.testbed-setup
log=$project/.setup.log
system_python=/usr/bin/python3
as_root="sudo $0 setup" # the command that may install packages

# What runs and analyses need.  mininet: namespaces and CLI; net-tools, iputils-ping: what people type at the
# Mininet prompt; openvswitch-switch: the bridges of mesh access points, started by each run for itself;
# gcc, libc6-dev, python3-dev: machine code for what runs spend their time in.  And Java, for Spark.
packages=(mininet python3-venv iproute2 net-tools iputils-ping tcpdump openvswitch-switch
    gcc libc6-dev python3-dev)
# What `--with` sets up: middlewares, and what routes beneath them; and what they need of Debian.
systems="mqtt, zeromq, zenoh, dds, nats, gossipsub, mqtt-clients, babel, batman"
declare -A of_debian=([mqtt]=mosquitto [nats]=nats-server [babel]=babeld [batman]=batmand
    [gossipsub]=libgmp-dev) # one of its packages is compiled
say() { printf '==> %s\n' "$*" >&2; }
fail() { printf 'run_testbed.sh: %s\n' "$*" >&2; exit 1; }
usage() { fail "usage: $0 setup [test] [--with NAME,...]: $systems"; }
is_root() { [ "$(id -u)" = 0 ]; }
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
    until output=$(LC_ALL=C apt-get "$@" 2>&1 8>&- 9>&-); do
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
    is_root ||
        fail "set-up installs packages (${missing[*]}): run it once with sudo: $as_root"
}

install_packages() { # one at a time on this host, however many checkouts and processes want to
    local missing index package
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
        trap '' INT # half-installed packages are repaired by hand
        # Mininet recommends Open vSwitch and more; a run over radios alone needs none of it.
        apt install -y --no-install-recommends "${missing[@]}"
        for package in "${missing[@]}"; do
            case $package in # runs start these for themselves: Debian's own services stay off
                openvswitch-switch | mosquitto | babeld | batmand | nats-server)
                    systemctl disable --now "$package" >>"$log" 2>&1 || true ;;
            esac
        done
    fi
    exec 8>&-
}

begin_packages() { # PACKAGE...: in the background, so that Ctrl-C can wait for what apt has begun
    (trap 'exit 130' INT; install_packages "$@") &
    debian=$!
}
await_packages() { wait "$debian" || exit 1; } # it has said why

check_python() {
    "$system_python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "needs Python 3.11 or later at $system_python (Debian 12, Ubuntu 24.04 or newer)"
}

python_version() { # PYTHON: what environments depend on, such as `Python 3.11`
    local version
    version=$("$1" -V 2>/dev/null) && printf '%s\n' "${version%.*}"
}

is_whole() { # ENVIRONMENT: of the system's Python, and made to its end, where pip comes
    "$1/bin/python" -m pip show --quiet pip >/dev/null 2>&1 &&
        [ "$(python_version "$1/bin/python")" = "$(python_version "$system_python")" ]
}

make_venv() {
    if ! is_whole "$venv" || grep -q 'system-site-packages = true' "$venv/pyvenv.cfg"; then
        say "making the virtual environment $venv"
        rm -rf "$venv"
        "$system_python" -m venv "$venv" >>"$log" 2>&1 || fail "cannot make $venv; see the end of $log"
    fi
    say "installing Python packages (about 500 MB; a few minutes)"
    # All that compiling needs; Spark is as large as all of it, and comes beside the compiler.
    pip_install "$venv" <(sed '/^pyspark==/,/[^\\]$/d' "$project/requirements/run.lock") --no-compile ||
        pip_failed
}

install_spark() { # and prepare Java, which takes as long as the compiler
    trap 'exit 130' INT
    pip_install "$venv" "$project/requirements/run.lock" --no-compile || pip_failed
    PYTHONPATH=$project "$venv/bin/python" -m testbed.class_data >>"$log" 2>&1 ||
        say "not prepared, so analyses start slower: $(tail -n 1 "$log")"
}

pip_install() { # ENVIRONMENT LOCK [OPTION...]
    local output
    output=$("$1/bin/python" -m pip install --disable-pip-version-check --require-hashes "${@:3}" \
        -r "$2" 2>&1 | tee -a "$log") && return
    reason=$(grep '^ERROR: ' <<<"$output" | tail -n 1) || true
    return 1
}
pip_failed() { fail "pip failed${reason:+: ${reason#ERROR: }}; see $log"; }

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
    wanted=$(made_of "$project"/requirements/{ryu,os-ken}.lock)
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
    cat >"$ryu/bin/$name.new" <<'MANAGER'
#!/bin/sh
bin=$(dirname "$(readlink -f "$0")") # wherever the checkout has moved to
PYTHONPATH=${bin%/*/*}${PYTHONPATH:+:$PYTHONPATH} \
    exec "$bin/python" -W ignore -m emulation.network.controller.manager "$@"
MANAGER
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

made_of() { { cat "$@"; python_version "$system_python"; } | sha256sum; } # FILE...
inputs() { made_of "$project"/requirements/*.lock "${BASH_SOURCE[0]}"; }
who() { if is_root; then printf root; else printf user; fi; }

current() { # STAMP [WHO]: whether what it stands for is there
    [ -x "$venv/bin/python" ] && [ "$(cat "$1" 2>/dev/null)" = "$(inputs)${2+ $2}" ]
}

ready() { # run, or test: for both, and what root installs for tests will do for others
    current "$stamp" &&
        { [ "$1" = run ] || current "$stamp-test" root || current "$stamp-test" "$(who)"; }
}

lock() { # one set-up at a time in this checkout
    { exec 9>"$project/.setup.lock"; } 2>/dev/null || fail "cannot write to $project: run it with sudo, or chown it"
    flock --nonblock 9 || { say "waiting for another set-up"; flock 9; }
}
unlock() { flock -u 9; exec 9>&-; }

setup() { # for runs, and for tests if the argument is `test`
    local made=
    if ready "$1"; then return; fi
    lock # of two first uses at once the second then finds everything there
    : >"$log"
    resumes=": the next start goes on from here"
    if ! current "$stamp"; then
        setup_for_runs
        printf '%s\n' "$made" >"$stamp"
    fi
    if [ "$1" = test ] && ! ready test; then
        made=${made:-$(inputs)}
        setup_for_tests
        printf '%s %s\n' "$made" "$(who)" >"$stamp-test"
    fi
    say "set-up is complete"
    resumes=
    unlock
}

setup_for_runs() {
    [ ! -e "$system_python" ] || check_python # before anything is installed
    can_install "${packages[@]}" openjdk-JRE
    begin_packages python3-venv
    await_packages
    check_python
    made=$(inputs) # now: who pulls meanwhile sets up again
    begin_packages "${packages[@]}" openjdk-JRE
    beside make_ryu
    ryu_tried=yes
    make_venv
    beside install_spark
    await_packages # the C compiler is one of them
    link_packages
    say "compiling what runs spend their time in (under a minute)"
    PYTHONPATH=$project "$venv/bin/python" -m testbed.compiling >>"$log" 2>&1 ||
        say "not compiled, so runs take twice as long: $(tail -n 1 "$log")"
    "$venv/bin/python" -m compileall -q "$venv" >>"$log" 2>&1 || true # pip would make Java wait for it
    finish
    renew_systems
}

setup_for_tests() { # without root, tests of the dissector, of figures for print and of the virtual machine are skipped
    local machine
    say "installing what tests need"
    if is_root; then
        machine=$(PYTHONPATH=$project "$venv/bin/python" -m emulation.vm.tools)
        # shellcheck disable=SC2086  # a word a package
        begin_packages tshark poppler-utils librsvg2-bin mosquitto-clients $machine
    fi
    pip_install "$venv" "$project/requirements/dev.lock" || pip_failed
    if is_root; then
        await_packages
        install_with "$systems"
    fi
}

check_systems() { # NAME,...
    local name
    [[ $1 =~ [[:alnum:]] ]] || usage
    for name in ${1//,/ }; do
        [[ ", $systems," == *", $name,"* ]] || fail "there is no $name to set up: $systems"
    done
}

install_with() { # NAME,...: those that `check_systems` accepts
    local name
    for name in ${1//,/ }; do
        if [ -n "${of_debian[$name]-}" ]; then
            begin_packages "${of_debian[$name]}"
            await_packages
        fi
        if [ -e "$project/requirements/$name.lock" ]; then install_system "$name"; fi
    done
}
install_system() { # NAME: at the versions of its lock, and remember them
    pip_install "$venv" "$project/requirements/$1.lock" || pip_failed
    cp "$project/requirements/$1.lock" "$venv/.testbed-with-$1"
}
renew_systems() { # those whose lock has changed since
    local old name
    for old in "$venv"/.testbed-with-*; do
        name=${old##*/.testbed-with-}
        [ ! -e "$project/requirements/$name.lock" ] || cmp -s "$old" "$project/requirements/$name.lock" ||
            install_system "$name"
    done
}

setup_command() { # WORD...
    local word purpose=run chosen=- # nothing beside
    for word in "$@"; do
        case $word in
            test) purpose=test ;;
            --with) [ "$chosen" = - ] || usage; chosen= ;;
            --with=*) [ "$chosen" = - ] || usage; chosen=${word#*=} ;;
            *) [ -z "$chosen" ] || usage; chosen=$word ;;
        esac
    done
    [ "$chosen" = - ] || check_systems "$chosen" # before anything is installed
    [ ! -e "$venv" ] || [ -w "$venv" ] || fail "$venv is another user's: $as_root"
    setup "$purpose"
    lock
    # It may have failed before, and nothing else tries it again.
    [ -n "${ryu_tried-}" ] || { beside make_ryu; finish; }
    [ "$chosen" = - ] || install_with "$chosen"
    link_packages # Mininet-WiFi may have come since
    unlock
    [ ! -w "$project" ] || PYTHONPATH=$project "$venv/bin/python" -m testbed.compiling || true
    say "ready: $project/run_testbed.sh --help"
}

case ${_TESTBED_COMPLETE:+Tab}${1-} in
    Tab*) [ -e "$stamp" ] || exit 0 ;; # a shell that completes a line must not set up
    install-packages) # what the virtual machine needs of Debian, for `vm build`
        log=/var/log/testbed-packages.log
        begin_packages "${@:2}"
        await_packages
        exit
        ;;
    test) as_root+=" test"; setup test ;;
    setup) as_root="sudo $0 $*"; setup_command "${@:2}"; exit ;;
    *) setup run ;;
esac
export PYTHONPATH=$project${PYTHONPATH:+:$PYTHONPATH}
exec env --block-signal=INT "$venv/bin/python" -m testbed "$@" # until it can say that it was interrupted
