# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import arm_ext
from arm_ext.errors import UsageError
from arm_ext.manifest import Manifest, manifest_schema
from arm_ext.package import MANIFEST, SO, Selftest, load_package
from arm_ext.report import report_schema

SCHEMAS = Path(arm_ext.__file__).parent / "schemas"


@pytest.mark.parametrize(("name", "schema"), [("manifest", manifest_schema()), ("report", report_schema())])
def test_shipped_schemas_are_those_of_the_records(name: str, schema: dict[str, object]):
    assert json.loads((SCHEMAS / f"{name}.schema.json").read_text()) == schema


def test_selftest_survives_a_round_trip(tmp_path: Path):
    arrays = [np.arange(i + 1, dtype=np.int8) for i in range(11)]
    Selftest(arrays[:1], arrays, [], "onnxruntime 1").save(tmp_path / "s.npz")
    loaded = Selftest.load(tmp_path / "s.npz")
    # More than ten, so that an order by name would show.
    assert [len(a) for a in loaded.expected] == list(range(1, 12))
    assert (loaded.source, loaded.source_runtime) == ([], "onnxruntime 1")
    np.testing.assert_array_equal(loaded.inputs[0], arrays[0])


def test_unknown_schema_version_is_refused(tmp_path: Path):
    (tmp_path / SO).write_bytes(b"")
    (tmp_path / MANIFEST).write_text('{"schema_version": 3}')
    with pytest.raises(UsageError, match=r"by a later version .*schema_version"):
        load_package(tmp_path)


def test_manifest_of_a_compile_fits_the_schema(digits_package: Path):
    document = json.loads((digits_package / MANIFEST).read_text())
    jsonschema.validate(document, json.loads((SCHEMAS / "manifest.schema.json").read_text()))
    assert Manifest.model_validate(document).model_dump(mode="json") == document
