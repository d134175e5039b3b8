#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write arm_ext/schemas anew from the records in arm_ext/manifest.py."""

import json
from pathlib import Path

import arm_ext
from arm_ext.manifest import manifest_schema

folder = Path(arm_ext.__file__).parent / "schemas"
(folder / "manifest.schema.json").write_text(json.dumps(manifest_schema(), indent=2) + "\n")
