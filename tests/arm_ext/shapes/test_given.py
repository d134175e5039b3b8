# SPDX-License-Identifier: Apache-2.0
import pytest

from arm_ext.common.errors import UsageError
from arm_ext.shapes.given import buckets_of, parse_dims, static_shapes


@pytest.mark.parametrize(
    ("text", "dims"),
    [
        ("1,3,224,224", (1, 3, 224, 224)),
        ("7", (7,)),
        ("1,{64,128}", (1, (64, 128))),
        ("{1,8},3,{32,64}", ((1, 8), 3, (32, 64))),
        ("n,3", ("n", 3)),
    ],
)
def test_dimensions_are_numbers_lists_and_names(text: str, dims: tuple[object, ...]):
    assert parse_dims(text) == dims


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1,,2",
        "1,{64",
        "1,64}",
        "{}",
        "{a,b}",
        "1,{2,{3}}",
        "1.5",
        "1,",
        "n-1",
        "{1,}",
        "1_0",
        "٣",
        "0x2",
        "9" * 5000,
    ],
)
def test_anything_else_is_refused(text: str):
    with pytest.raises(ValueError, match=r".*"):
        parse_dims(text)


def test_lists_go_together_position_by_position():
    buckets = buckets_of({"x": (1, [8, 16]), "mask": ([8, 16], 4), "scale": (3,)})
    assert [bucket.shapes for bucket in buckets] == [
        {"x": (1, 8), "mask": (8, 4), "scale": (3,)},
        {"x": (1, 16), "mask": (16, 4), "scale": (3,)},
    ]
    assert [bucket.label for bucket in buckets] == ["8", "16"]


def test_a_label_has_a_size_of_each_list_that_differs():
    assert [b.label for b in buckets_of({"x": ([1, 1], [8, 16])})] == ["1x8", "1x16"]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"x": (1, [8, 16]), "y": ([1, 2, 3],)}, r"\{8,16\} and \{1,2,3\} must have the same length"),
        ({"x": (1, [8, 16, 8])}, "the sizes 8 are listed twice"),
        ({"x": (1, [])}, "must have the same length"),
    ],
)
def test_ambiguous_lists_are_refused(shapes: dict[str, tuple[object, ...]], message: str):
    with pytest.raises(UsageError, match=message):
        buckets_of(shapes)  # type: ignore[arg-type]


def test_a_name_is_of_the_samples():
    (bucket,) = buckets_of({"x": ("n", 3), "all": (3,)})
    assert (bucket.batch, bucket.batched, bucket.shapes) == ("n", ("x",), {"x": (1, 3), "all": (3,)})
    assert bucket.with_batch(7) == {"x": (7, 3), "all": (3,)}


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"x": (1, "n", [4, 5])}, r"sizes that occur: --shape 'x=1,\{64,128\},\{4,5\}'"),
        ({"x": ("n", 3), "y": ("m", 3)}, "m and n both name the number of samples"),
    ],
)
def test_other_names_are_refused(shapes: dict[str, tuple[object, ...]], message: str):
    with pytest.raises(UsageError, match=message):
        buckets_of(shapes)  # type: ignore[arg-type]


def test_a_verb_for_one_shape_takes_no_list():
    assert static_shapes({"x": (1, [8])}, "explain") == {"x": (1, 8)}
    with pytest.raises(UsageError, match="explain needs one shape per input"):
        static_shapes({"x": (1, [8, 16])}, "explain")


def test_size_with_a_bound():
    (bucket,) = buckets_of({"x": parse_dims("1,n<=512"), "mask": parse_dims("n<=512,4")})
    assert (bucket.length, bucket.largest, bucket.open) == ("n", 512, {"x": (1,), "mask": (0,)})
    assert bucket.with_length(7) == {"x": (1, 7), "mask": (7, 4)}


def test_dimensions_may_be_the_text_of_the_command_line():
    (bucket,) = buckets_of({"x": "1,n<=512"})
    assert (bucket.length, bucket.largest) == ("n", 512)
    assert static_shapes({"x": "1,64"}, "verify") == {"x": (1, 64)}
    for dims in ("1;64", 64):
        with pytest.raises(UsageError, match=f"shapes: {dims!r} of input x is not a shape, such as "):
            buckets_of({"x": dims})  # type: ignore[dict-item]
