#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up, then runs every check and test. Arguments go to pytest: scripts/test.sh -k digits
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh test
export PATH="$PWD/.venv/bin:$PATH"

ruff check .
ruff format --check .
clang-format --dry-run -Werror arm_ext/native/*.{cc,c,h} tests/arm_ext/native/*.cc tests/schedules/kernels/gemm/*.c
# Types are checked, by one process, while the workers of the tests load their modules; what it says comes last.
types=$(mktemp)
trap 'rm -f "$types"' EXIT
mypy >"$types" 2>&1 &
checker=$!
# One process more than processors, as tests wait for boards; a file's stay together, since they share what
# they compile, and in their order, by which the longest (fuzz) is not the last.
# Hundreds of tests start commands, which would all compile our modules again if none may keep them.
unset PYTHONDONTWRITEBYTECODE
# In a new clone one process writes the byte code of all that the tests import, instead of three at the same time.
[[ -d tests/__pycache__ ]] || OMP_NUM_THREADS=1 python -m pytest -qq --collect-only >/dev/null || true
# One thread of OpenMP each: more would be in each other's way, and a process that has them cannot be forked.
OMP_NUM_THREADS=1 PYTHONPATH=tests python -m pytest -p skip_policy --skips tests/skips.txt -n "$(($(nproc) + 1))" --dist loadfile --no-loadscope-reorder --durations=30 \
    "$@" || failed=$?
wait "$checker" || failed=$?
cat "$types"
exit "${failed:-0}"
