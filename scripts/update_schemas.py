#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write arm_ext/report/schemas from the records: manifests, report, profile and accuracy report."""

import json
from pathlib import Path

import arm_ext
from arm_ext.package.manifest import library_schema, manifest_schema
from arm_ext.report.accuracy.record import accuracy_schema
from arm_ext.report.profile.record import profile_schema
from arm_ext.report.report import report_schema


def main() -> None:
    """Write the files."""
    folder = Path(arm_ext.__file__).parent / "report" / "schemas"
    schemas = {
        "manifest": manifest_schema(),
        "library": library_schema(),
        "report": report_schema(),
        "profile": profile_schema(),
        "accuracy": accuracy_schema(),
    }
    for name, schema in schemas.items():
        (folder / f"{name}.schema.json").write_text(json.dumps(schema, indent=2) + "\n")


if __name__ == "__main__":
    main()
