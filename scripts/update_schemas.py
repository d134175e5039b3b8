#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write arm_ext/schemas anew from the records in arm_ext/package/manifest.py and arm_ext/report/report.py."""

import json
from pathlib import Path

import arm_ext
from arm_ext.package.manifest import manifest_schema
from arm_ext.report.report import report_schema

folder = Path(arm_ext.__file__).parent / "schemas"
for name, schema in (("manifest", manifest_schema()), ("report", report_schema())):
    (folder / f"{name}.schema.json").write_text(json.dumps(schema, indent=2) + "\n")
