# SPDX-License-Identifier: Apache-2.0
import json

from arm_ext.cli import invoke
from arm_ext.target.profiles import PROFILES


def test_table_has_a_whole_row_for_each_target(capsys):
    assert invoke(["targets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line for line in lines if line.strip()}
    assert set(rows) >= {*PROFILES, "host"}
    assert "cortex-a76" in rows["raspberry-pi-5"]
    assert "64, 512" in rows["raspberry-pi-5"]
    assert "i8mm bf16 sve sve2  max,sve128=on,sve256=off,sve512=off,sme=off" in rows["graviton4"]


def test_json_is_one_document_with_features_and_sources(capsys):
    assert invoke(["targets", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema_version"] == 1
    targets = {target["name"]: target for target in document["targets"]}
    assert list(targets) == [*PROFILES, "host"]
    assert targets["arm"]["features"] == ["crc", "dotprod", "fullfp16", "lse", "rdm"]
    assert targets["graviton3"]["vector_bits"] == 256
    assert all(target["l1d"]["source"] and target["l2"]["source"] for target in targets.values())
