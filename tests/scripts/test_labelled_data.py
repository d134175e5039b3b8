# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the digits are scikit-learn's; pip install -e .[train]")
import labelled_data


def test_digits_are_images_of_those_that_training_does_not_see():
    images, labels = labelled_data.digits(3, 1, held_out=True)
    assert (images.shape, images.dtype, labels.shape) == ((360, 3, 32, 32), np.float32, (360,))
    assert 0 <= images.min() < images.max() <= 1
    assert set(labels) == set(range(10))
    np.testing.assert_array_equal(images, labelled_data.digits(3, 1, held_out=True)[0])


def test_keywords_are_features_of_words_that_all_differ():
    features, labels = labelled_data.keywords(3, 40)
    assert (features.shape, features.dtype, labels.shape) == ((40, 1, 49, 10), np.float32, (40,))
    assert np.isfinite(features).all()
    assert len({tuple(word) for word in labelled_data.words()}) == labelled_data.WORDS
