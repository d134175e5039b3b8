#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The quick checks: lint, types, and tests that need no board: of rewrite rules, cores, composites, numerics, the command
# line and the rooms of the packages.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

ruff check .
ruff format --check .
clang-format --dry-run -Werror arm_ext/native/*.{cc,c,h} tests/arm_ext/native/*.cc
mypy
OMP_NUM_THREADS=1 python -m pytest -q -n "$(nproc)" tests/relay_passes/rules tests/relay_passes/rewriter tests/relay_passes/ir \
    tests/schedules/composites tests/schedules/numerics tests/schedules/test_cores.py tests/schedules/kernels/common/test_cost_model.py \
    tests/arm_ext/cli/test_config_option.py tests/arm_ext/cli/test_console.py tests/arm_ext/cli/test_targets.py \
    tests/arm_ext/ethosu/ops/test_registry.py tests/arm_ext/shapes/test_given.py tests/test_structure.py "$@"
