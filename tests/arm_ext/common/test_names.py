# SPDX-License-Identifier: Apache-2.0
from arm_ext.common.names import near, node_of


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


NODES = [
    "features.3.conv.0/conv2d",
    "features.3/add",
    "features.3/add_1",
    "features.13/add",
    "/stem/Conv",
    "exp",
]


def test_a_node_is_known_by_its_only_ending_or_module() -> None:
    assert node_of("exp", NODES) == "exp"
    assert node_of("conv.0/conv2d", NODES) == node_of("conv2d", NODES) == NODES[0]
    assert node_of("features.3.conv.0", NODES) == NODES[0]
    assert node_of("Conv", NODES) == "/stem/Conv"
    assert node_of("features.13", NODES) == "features.13/add"
    assert [node_of(name, NODES) for name in ("add", "features.3", "onv2d", "")] == [None] * 4
    assert node_of("features.3…conv2d", NODES) == node_of("…conv.0/conv2d", NODES) == NODES[0]
    assert [node_of(name, NODES) for name in ("features…add", "…", "x…conv2d")] == [None] * 3
    assert near("add", NODES) == "several have such a name: features.13/add, features.3/add"
