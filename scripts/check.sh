#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The quick checks: lint, types, and the tests of the graph passes, of structure and of what the command line parses.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

ruff check .
ruff format --check .
clang-format --dry-run -Werror arm_ext/native/*.{cc,c,h} tests/arm_ext/native/*.cc
mypy
OMP_NUM_THREADS=1 python -m pytest -q -n "$(nproc)" tests/relay_passes/rules tests/relay_passes/rewriter tests/relay_passes/ir \
    tests/test_structure.py "$@"
