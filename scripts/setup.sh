#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs this checkout into .venv: `scripts/setup.sh` to compile, `scripts/setup.sh test` to run the tests as well.
# On Debian and Ubuntu it installs what is missing with apt (through sudo unless root); elsewhere it says what is.
set -euo pipefail
cd "$(dirname "$0")/.."

extra=${1:-}
missing=()
python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
if [[ $extra == test ]]; then
    # The emulator, the arm64 C and C++ libraries it maps, llvm-mca for the cycle estimates, a compiler with sanitizers,
    # one for microcontrollers; what users build C libraries with, a machine without an operating system, a board behind
    # ssh, and a browser.
    for package in qemu-user libc6-arm64-cross libstdc++6-arm64-cross llvm-19 g++ gcc-arm-none-eabi cmake pkg-config \
        qemu-system-arm openssh-server; do
        [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
    done
    # Ubuntu has no package of a browser, only a snap; GitHub's machines come with Chrome and its driver.
    command -v chromedriver >/dev/null || missing+=(chromium chromium-driver)
fi

if ((${#missing[@]})); then
    if ! command -v apt-get >/dev/null; then
        echo "scripts/setup.sh: no apt-get here; install what these Debian packages hold: ${missing[*]}" >&2
        exit 3
    fi
    as_root=(env DEBIAN_FRONTEND=noninteractive)
    ((EUID == 0)) || as_root=(sudo "${as_root[@]}")
    "${as_root[@]}" apt-get update -qq
    # Beside pip, which needs python3-venv alone; waited for, and its failure ours, however this script ends.
    trap 'wait "$packages"' EXIT
    "${as_root[@]}" apt-get install -yqq --no-install-recommends "${missing[@]}" >/dev/null &
    packages=$!
    [[ ${missing[0]} != python3-venv ]] || wait "$packages"
fi

if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "scripts/setup.sh: $(python3 --version) is too old; Python 3.11 or newer is needed" >&2
    exit 3
fi
[[ -x .venv/bin/pip ]] || python3 -m venv .venv
# Byte code of the few modules that are imported is written when they are; of all that is installed it takes a minute.
.venv/bin/pip install --quiet --disable-pip-version-check --no-compile --editable ".${extra:+[$extra]}"
# The emulator of SME, where Debian's backports can be reached; tests that need it skip without.
[[ $extra != test ]] || scripts/qemu_sme.sh >/dev/null || true
