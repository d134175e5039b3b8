# SPDX-License-Identifier: Apache-2.0
from arm_ext.names import near


def test_near_names_are_offered() -> None:
    assert (
        near("fold_scael", ["fold_scale", "merge_clips", "fold_pad"])
        == "did you mean fold_scale or fold_pad?"
    )


def test_all_names_are_listed_where_none_is_near() -> None:
    assert near("xyz", ["merge_clips", "fold_pad"]) == "known are: fold_pad, merge_clips"
