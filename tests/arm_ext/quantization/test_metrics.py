# SPDX-License-Identifier: Apache-2.0
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score, jaccard_score, top_k_accuracy_score

from arm_ext.common.errors import UsageError
from arm_ext.quantization.metrics import METRICS, metric_of
from arm_ext.report.accuracy.gate import Gate

RNG = np.random.default_rng(2)
SCORES = RNG.standard_normal((40, 1, 7)).astype(np.float32)
CLASSES = RNG.integers(0, 7, 40)


def value(name: str, outputs: dict[str, np.ndarray], **arrays: np.ndarray) -> float:
    return metric_of(name, arrays, len(next(iter(outputs.values()))))(outputs, outputs)


def test_classes_are_judged_as_scikit_learn_does() -> None:
    scores, found = SCORES[:, 0], SCORES[:, 0].argmax(1)
    outputs = {"logits": SCORES}
    assert value("top1", outputs, labels=CLASSES) == np.mean(found == CLASSES)
    expected = top_k_accuracy_score(CLASSES, scores, k=5)
    assert value("top5", outputs, labels=CLASSES) == pytest.approx(expected, abs=1e-12)
    assert value("f1", outputs, labels=CLASSES) == pytest.approx(f1_score(CLASSES, found, average="macro"))


def test_unsigned_scores_are_no_negative_numbers() -> None:
    scores = np.array([[0, 200, 3], [9, 0, 1]], np.uint8)
    assert value("top1", {"y": scores}, labels=np.array([1, 0])) == 1


@pytest.mark.parametrize("last", [False, True])
def test_pixels_are_judged_as_scikit_learn_does(last: bool) -> None:
    scores = RNG.standard_normal((3, 1, 4, 5, 6)).astype(np.float32)
    labels = RNG.integers(0, 4, (3, 5, 6))
    expected = jaccard_score(labels.ravel(), scores[:, 0].argmax(1).ravel(), average="macro")
    outputs = {"map": np.moveaxis(scores, 2, -1) if last else scores}
    assert value("iou", outputs, labels=labels) == pytest.approx(expected)


def test_pixels_without_a_label_count_for_nothing() -> None:
    scores = np.zeros((1, 2, 2, 3), np.float32)
    scores[0, 1, 0] = 1  # the first row is of class 1
    labels = np.array([[[1, 1, -1], [0, 1, -1]]])
    # Class 0: one of two pixels; class 1: two of three.
    assert value("iou", {"map": scores}, labels=labels) == pytest.approx((1 / 2 + 2 / 3) / 2)


def test_ids_of_tokens_have_rates_of_characters_and_words() -> None:
    # a b _ c d against a b _ c e: one of five characters, one of two words; the other sample is right.
    found = np.array([[1, 2, 9, 3, 4, -1], [1, 1, -1, -1, -1, -1]])
    labels = np.array([[1, 2, 9, 3, 5, -1], [1, 1, -1, -1, -1, -1]])
    assert value("cer", {"ids": found}, labels=labels) == pytest.approx(1 / 7)
    assert value("wer", {"ids": found}, labels=labels, space=np.array(9)) == pytest.approx(1 / 3)


def test_insertions_and_deletions_are_errors() -> None:
    labels = np.array([[1, 2, 3, 4]])
    for found, errors in (([1, 2, 3, -1], 1), ([1, 2, 7, 3, 4], 1), ([2, 3, 4, 1], 2), ([-1], 4)):
        assert value("cer", {"ids": np.array([found])}, labels=labels) == pytest.approx(errors / 4)


def test_scores_of_steps_are_decoded_without_repeats_and_blanks() -> None:
    best = [0, 3, 3, 0, 3, 1, 1, 0]
    scores = np.eye(4, dtype=np.float32)[best][None, None]
    assert value("cer", {"y": scores}, labels=np.array([[3, 3, 1]])) == 0
    assert value("cer", {"y": scores}, labels=np.array([[0, 0, 0, 0]]), blank=np.array(1)) > 0


def test_perplexity_is_that_of_the_labels() -> None:
    logits = np.log(np.array([[[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]]], np.float32))[:, None]
    labels = np.array([[0, 1, -1]])
    assert value("perplexity", {"y": logits}, labels=labels) == pytest.approx(
        math.exp(-math.log(0.5 * 0.8) / 2)
    )


def test_boxes_are_right_where_they_overlap_by_half() -> None:
    boxes = np.array([[[0, 0, 4, 4], [0, 0, 4, 3], [10, 10, 12, 12], [20, 20, 24, 24]]], np.float32)
    outputs = {
        "detection_boxes": boxes,
        "detection_scores": np.array([[0.9, 0.8, 0.7, 0.6]], np.float32),
        "detection_classes": np.array([[1, 1, 1, 2]], np.float32),
    }
    right = np.array([[[0, 0, 4, 4], [10, 10, 12, 13], [20, 20, 24, 24], [0, 0, 0, 0]]], np.float32)
    labels = np.array([[1, 1, 2, -1]])
    # Class 1: right, a second box of the same object, right: precision 1 at half the objects, 2/3 at all. Class 2: 1.
    expected = ((1 + 2 / 3) / 2 + 1) / 2
    assert value("map50", outputs, labels=labels, boxes=right) == pytest.approx(expected)
    assert value("map50", outputs, labels=np.array([[3, 3, 3, -1]]), boxes=right) == 0


def test_errors_rise_and_perplexity_rises_by_a_share() -> None:
    labels = np.zeros((1, 2), int)
    assert metric_of("top1", {"labels": np.zeros(1, int)}, 1).drop(0.7, 0.75) == pytest.approx(0.05)
    assert metric_of("cer", {"labels": labels}, 1).drop(0.15, 0.1) == pytest.approx(0.05)
    assert metric_of("perplexity", {"labels": labels}, 1).drop(21, 20) == pytest.approx(0.05)
    with pytest.raises(UsageError, match="lower values of this metric are better"):
        Gate(least=("cer", 0.1)).check("cer", 10, less_is_better=True)


@pytest.mark.parametrize(
    "bound", [{"min_sqnr": math.nan}, {"least": ("top1", math.nan)}, {"max_drop": math.nan}]
)
def test_what_is_no_number_bounds_nothing(bound: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"--\S+ nan: expected a number"):
        Gate(**bound)


def test_a_module_that_ends_the_process_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ends_at_import.py").write_text("raise SystemExit(0)")
    (tmp_path / "ends_when_called.py").write_text("def f(*_): raise SystemExit(0)")
    with pytest.raises(UsageError, match="ends_at_import cannot be imported: SystemExit"):
        metric_of("ends_at_import:f", {}, 1)
    with pytest.raises(UsageError, match="raised SystemExit"):
        metric_of("ends_when_called:f", {}, 1)({}, {})


ROWS = np.zeros((4, 3), int)
FAULTS = {
    "no labels": ("f1", {"y": SCORES[:4]}, {}, "the data has no array 'labels'"),
    "labels of pixels": (
        "top5",
        {"y": SCORES[:4]},
        {"labels": np.zeros((4, 2, 2), int)},
        "a list of integers",
    ),
    "labels of classes": ("cer", {"y": SCORES[:4]}, {"labels": np.zeros(4, int)}, "a row of integers"),
    "float labels": ("iou", {"y": SCORES[:4]}, {"labels": np.zeros((4, 2, 2))}, "labels are float64"),
    "fewer": ("wer", {"y": SCORES[:4]}, {"labels": ROWS[:3]}, "4 samples but 3 labels"),
    "no space": ("wer", {"y": SCORES[:4]}, {"labels": ROWS}, "has no array 'space'"),
    "no boxes": ("map50", {"y": SCORES[:4]}, {"labels": ROWS}, "has no array 'boxes'"),
    "outputs without boxes": (
        *("map50", {"y": SCORES[:4]}, {"labels": ROWS, "boxes": np.zeros((4, 3, 4))}),
        "expected an output with 'box' in its name",
    ),
    "one score": ("f1", {"y": np.zeros((4, 1, 1))}, {"labels": np.zeros(4, int)}, "has one score per sample"),
    "no steps": ("perplexity", {"y": SCORES[:4]}, {"labels": ROWS}, "expected [steps, tokens]"),
    "other steps": (
        *("perplexity", {"y": np.zeros((4, 5, 9))}, {"labels": ROWS}),
        "expected a label for each step",
    ),
    "no tokens": ("cer", {"y": ROWS}, {"labels": ROWS - 1}, "labels hold no token"),
    "other pixels": (
        *("iou", {"y": np.zeros((4, 3, 8, 8))}, {"labels": np.zeros((4, 7, 8), int)}),
        "expected the same with one more axis",
    ),
    "no such metric": ("bleu", {"y": ROWS}, {}, "unknown; expected top1, top5, f1, cosine"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_does_not_fit_is_told(fault: str) -> None:
    name, outputs, arrays, message = FAULTS[fault]
    with pytest.raises(UsageError, match=f"--metric {name}: .*{re.escape(message)}"):
        value(name, outputs, **arrays)


def test_every_metric_is_named_in_the_help() -> None:
    from arm_ext.cli.accuracy import accuracy
    from arm_ext.cli.quantize import quantize

    for command in (accuracy, quantize):
        (option,) = (each for each in command.params if each.name == "metric")
        assert option.metavar == "|".join([*METRICS, "MODULE:FUNCTION"])
