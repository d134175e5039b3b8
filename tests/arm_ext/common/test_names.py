# SPDX-License-Identifier: Apache-2.0
from arm_ext.common.names import near


def test_near_names_are_offered() -> None:
    assert (
        near("fold_scael", ["fold_scale", "merge_clips", "fold_pad"])
        == "did you mean fold_scale or fold_pad?"
    )


def test_all_names_are_listed_where_none_is_near() -> None:
    assert near("xyz", ["merge_clips", "fold_pad"]) == "known are: fold_pad, merge_clips"


def test_of_many_the_nearest_are_listed() -> None:
    names = [f"/encoder/layer.{layer}/conv" for layer in range(1000)]
    said = near("pool", names)
    assert said.startswith("the nearest of 1,000 are: /encoder/layer.")
    assert said.count("/encoder/") == 5
