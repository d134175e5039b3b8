# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from arm_ext.common.errors import UsageError
from arm_ext.frontends.common.imported import TensorSpec
from arm_ext.quantization.samples import read_samples, split_samples

IMAGE = TensorSpec("image", (1, 3, 9), "float32")
TOKENS = TensorSpec("tokens", (7,), "int64")


def images(count: int, *axes: int) -> np.ndarray:
    return np.arange(count * 27, dtype=np.float32).reshape(count, *axes)


@pytest.mark.parametrize("axes", [(1, 3, 9), (3, 9)], ids=["sample axis", "batch of 1 as sample axis"])
@pytest.mark.parametrize("name", ["image", "inputs"])
def test_one_feed_a_sample_in_the_models_shape(axes: tuple[int, ...], name: str):
    feeds = split_samples({name: images(4, *axes), "labels": np.zeros(4)}, [IMAGE])
    assert [feed.keys() for feed in feeds] == [{"image"}] * 4
    np.testing.assert_array_equal(feeds[2]["image"], images(4, 1, 3, 9)[2])


def test_a_scalar_of_each_sample_is_an_array():
    feeds = split_samples({"s": np.float32([1, 2])}, [TensorSpec("s", (), "float32")])
    assert [(feed["s"].shape, float(feed["s"])) for feed in feeds] == [((), 1), ((), 2)]
    assert all(isinstance(feed["s"], np.ndarray) for feed in feeds)


def test_an_iterable_gives_a_sample_at_a_time():
    rows = [{"image": image, "labels": number} for number, image in enumerate(images(3, 3, 9))]
    arrays = read_samples(iter(rows), lambda: (IMAGE,))
    np.testing.assert_array_equal(arrays["labels"], [0, 1, 2])
    np.testing.assert_array_equal(split_samples(arrays, [IMAGE])[1]["image"], images(3, 1, 3, 9)[1])
    for wrong, said in (
        ([], "data: there are no samples"),
        ([rows[0], {"image": rows[1]["image"]}], "expected samples with the same names and shapes"),
        ([{"image": np.zeros(3)}, {"image": np.zeros(4)}], "expected samples with the same names and shapes"),
        ([np.zeros(3)], "each a mapping of input names to arrays"),
    ):
        with pytest.raises(UsageError, match=said):
            read_samples(iter(wrong), lambda: (IMAGE,))


def test_inputs_are_paired_in_order():
    tokens = np.arange(14).reshape(2, 7)
    feeds = split_samples({"tokens": tokens, "image": images(2, 1, 3, 9)}, [IMAGE, TOKENS])
    np.testing.assert_array_equal(feeds[1]["tokens"], tokens[1])
    np.testing.assert_array_equal(feeds[1]["image"], images(2, 1, 3, 9)[1])


FAULTS = {
    "missing": ({"picture": images(2, 1, 3, 9)}, "no calibration samples for image; there are: picture"),
    "shape": (
        {"image": images(2, 1, 9, 3)},
        r"shape is \[2, 1, 9, 3\], the model takes \[samples, 1, 3, 9\]",
    ),
    "one sample without its axis": ({"image": np.float32(1)}, r"shape is \[\]"),
    "dtype": ({"image": images(2, 1, 3, 9).astype("f8")}, "dtype is float64, the model takes float32"),
    "empty": ({"image": images(0, 1, 3, 9)}, "samples are empty"),
    "not finite": ({"image": np.full((2, 1, 3, 9), np.nan, "f4")}, "not finite"),
}


@pytest.mark.parametrize(("samples", "says"), FAULTS.values(), ids=FAULTS)
def test_faults(samples: dict[str, np.ndarray], says: str):
    with pytest.raises(UsageError, match=says):
        split_samples(samples, [IMAGE])


def test_inputs_with_different_counts():
    with pytest.raises(UsageError, match="'image': 2, 'tokens': 3"):
        split_samples({"image": images(2, 1, 3, 9), "tokens": np.zeros((3, 7), "i8")}, [IMAGE, TOKENS])
