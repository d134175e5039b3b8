#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts a qemu-aarch64 that computes SME into the cache folder, beside this machine's, which stays: the one of Debian's
# backports. Exit code 3: this machine's package sources lead to no archive that has it.
set -euo pipefail

folder=${ARM_EXT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tvm-arm-ext}/qemu-sme
suite=trixie-backports
if [[ -x $folder/usr/bin/qemu-aarch64 ]]; then
    echo "$folder/usr/bin/qemu-aarch64 is there"
    exit 0
fi
keys=/usr/share/keyrings/debian-archive-keyring.gpg
# The archive that this machine's own packages come from, by apt's own word.
archive=$(apt-get indextargets --format '$(SITE) $(REPO_URI)' 2>/dev/null | awk '$2 ~ /\/debian\/?$/ { print $2; exit }') || true
if [[ -z $archive || ! -e $keys ]]; then
    echo "scripts/qemu_sme.sh: no package source of Debian here; set ARM_EXT_QEMU_SME to a qemu-aarch64 of QEMU 10 or newer" >&2
    exit 3
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{state/lists/partial,cache/archives/partial,root}
echo "deb [signed-by=$keys] $archive $suite main" >"$work/sources.list"
touch "$work/status"
# An apt of its own: neither this machine's lists nor its packages change.
own=(-o "Dir::State=$work/state" -o "Dir::Cache=$work/cache" -o "Dir::Etc::SourceList=$work/sources.list"
    -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::status=$work/status" -o APT::Sandbox::User=root)
if ! { apt-get "${own[@]}" -qq update && (cd "$work" && apt-get "${own[@]}" -qq download qemu-user); }; then
    echo "scripts/qemu_sme.sh: $suite cannot be reached" >&2
    exit 3
fi
dpkg -x "$work"/qemu-user_*.deb "$work/root"
mkdir -p "$folder/usr/bin"
mv "$work/root/usr/bin/qemu-aarch64" "$folder/usr/bin/.qemu-aarch64.$$"
mv "$folder/usr/bin/.qemu-aarch64.$$" "$folder/usr/bin/qemu-aarch64"
"$folder/usr/bin/qemu-aarch64" --version | head -1
