#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the documentation into build/site, strictly; `scripts/docs.sh serve` shows it at http://localhost:8000.
# Needs `pip install -e '.[docs]'`.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH" NO_MKDOCS_2_WARNING=1

if [[ ${1:-} == serve ]]; then
    exec mkdocs serve --strict
fi
mkdocs build --strict --quiet "$@"
