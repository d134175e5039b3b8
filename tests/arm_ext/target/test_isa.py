# SPDX-License-Identifier: Apache-2.0
import re

import pytest

from arm_ext.common.errors import InternalError
from arm_ext.target.isa import IsaReport, check_isa, required_features
from arm_ext.target.mnemonics import BASE, FEATURES, HALF, SVE, SVE2
from arm_ext.target.profiles import ISA_FEATURES
from arm_ext.target.toolchain import link_shared
from schedules.intrinsics import sme
from tests.arm_ext.target.examples import EXAMPLES, UNKNOWN, assemble


@pytest.mark.parametrize("needed", EXAMPLES, ids="+".join)
def test_instruction_is_refused_without_its_features_and_accepted_with_them(tmp_path, needed):
    for number, instruction in enumerate(EXAMPLES[needed]):
        so = assemble(
            tmp_path, {"before": ["ret"], "kernel": [instruction, "ret"], "after": ["ret"]}, "-shared"
        )
        assert check_isa(so, needed) == IsaReport(frozenset(needed), instructions=4), number
        for feature in needed:
            mnemonic = re.escape(instruction.split()[0])
            with pytest.raises(InternalError, match=rf"`{mnemonic}.*` at 0x\w+ in kernel needs {feature}"):
                check_isa(so, ISA_FEATURES - {feature})


@pytest.mark.parametrize("instruction", UNKNOWN)
def test_instruction_outside_the_tables_is_refused_whatever_the_features(tmp_path, instruction):
    so = assemble(tmp_path, {"kernel": ["ret", instruction]}, "-shared")
    with pytest.raises(InternalError, match="in kernel is not in the table"):
        check_isa(so, ISA_FEATURES)


def test_every_feature_has_an_example():
    assert {feature for needed in EXAMPLES for feature in needed} == ISA_FEATURES


def test_tables_name_known_features_and_half_forms_of_known_mnemonics():
    assert set(FEATURES) | {"fullfp16", "sve", "sve2", "sme"} == ISA_FEATURES
    assert HALF.issubset(BASE | FEATURES["complxnum"])


def test_no_operand_matters_but_registers_and_their_arrangement():
    assert required_features("add", "x0, x1, #0x10, lsl #12") == frozenset()
    assert required_features("ldr", "q0, [x1, x2, lsl #4]") == frozenset()
    assert required_features("prfm", "pldl1keep, [x0]") == frozenset()
    assert required_features("st1", "{v0.h}[3], [x1]") == frozenset()


def test_scalable_forms_differ_from_neon_forms_of_the_same_name():
    for mnemonic in (SVE | SVE2) & BASE:
        assert required_features(mnemonic, "z0.b, p0/m, z0.b, z1.b") in ({"sve"}, {"sve2"}), mnemonic


def test_sme_provides_sve_in_functions_that_run_in_streaming_mode(tmp_path):
    name = f"{sme.PREFIX}0123"
    code = ["smstart", "cntw x8", "sqxtnb z0.b, z0.h", "smstop", "ret"]
    so = assemble(tmp_path, {"before": ["ret"], name: code, "after": ["ret"]}, "-shared")
    assert check_isa(so, {"sme"}) == IsaReport(frozenset({"sme"}), instructions=7)
    with pytest.raises(InternalError, match=f"in {name} needs sme"):
        check_isa(so, {"sve"})
    # The same instruction behind such a function, or in one of another name, is none of streaming mode's.
    for functions in ({name: code, "after": ["cntw x8", "ret"]}, {"other": code}):
        so = assemble(tmp_path, functions, "-shared")
        with pytest.raises(InternalError, match=r"`cntw x8` at 0x\w+ in (after|other) needs sve"):
            check_isa(so, {"sme"})


def test_other_machines_are_not_checked(tmp_path):
    (tmp_path / "x.c").write_text("int f(void) { return 7; }")
    link_shared([tmp_path / "x.c"], tmp_path / "x.so", triple="x86_64-linux-gnu")
    assert check_isa(tmp_path / "x.so", ()) is None
