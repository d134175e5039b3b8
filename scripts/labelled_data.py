# SPDX-License-Identifier: Apache-2.0
"""Labelled data that needs no download: digits as colour images of 32 x 32, and synthetic keywords as MFCCs.

The digits are scikit-learn's, each turned, moved, coloured and made noisy at random. The keywords are made up: each
class is a sequence of three vowels (two formants each), spoken by a synthetic voice of random pitch, vocal tract, speed
and start, in noise. They stand for no data set; what is measured on them is what quantisation changes.
"""

from itertools import permutations

import numpy as np
from numpy.typing import NDArray
from scipy import fft, ndimage, signal
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]
Labelled = tuple[Floats, Labels]

SIDE = 32
RATE = 8000
"""Sampling rate of the keywords' audio in Hz."""

FRAME, STEP, FRAMES = RATE // 25, RATE // 50, 49
"""Samples of a frame, samples from a frame's start to the next, and frames of a second."""

BANDS, COEFFICIENTS = 40, 10

# First and second formant in Hz of vowels as in "beat, bit, bet, bat, father, bought, book, boot" (Peterson and Barney,
# 1952, the means of men).
FORMANTS = (
    (270, 2290),
    (390, 1990),
    (530, 1840),
    (660, 1720),
    (730, 1090),
    (570, 840),
    (440, 1020),
    (300, 870),
)
WORDS = 12


def digits(seed: int, times: int, *, held_out: bool) -> Labelled:
    """Return images [n, 3, 32, 32] and labels, of digits that training sees or of those that it does not.

    Args:
        seed: Seed of the random changes.
        times: Number of images that are made of each digit.
        held_out: Whether the digits are those that training does not see.
    """
    source = load_digits()
    parts = train_test_split(
        source.images, source.target, test_size=360, stratify=source.target, random_state=7
    )
    images, labels = (np.repeat(part, times, 0) for part in (parts[held_out], parts[2 + held_out]))
    rng = np.random.default_rng(seed)
    return np.stack([_image(image / 16, rng) for image in images]), labels.astype(np.int64)


def _image(digit: NDArray[np.float64], rng: np.random.Generator) -> Floats:
    angle, scale = np.deg2rad(rng.uniform(-20, 20)), rng.uniform(0.22, 0.32)
    turn = scale * np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    middle = (SIDE - 1) / 2 + rng.uniform(-3, 3, 2)
    shape = ndimage.affine_transform(digit, turn, 3.5 - turn @ middle, (SIDE, SIDE), order=1)
    ink, paper = rng.uniform(0.6, 1.0, (3, 1, 1)), rng.uniform(0.0, 0.4, (3, 1, 1))
    noise = rng.normal(0, 0.12, (3, SIDE, SIDE))
    return np.clip(paper + (ink - paper) * shape + noise, 0, 1).astype(np.float32)


def words() -> Labels:
    """Return the vowels of each word, [words, 3]."""
    every = np.array(list(permutations(range(len(FORMANTS)), 3)))
    return np.asarray(np.random.default_rng(1).choice(every, WORDS, replace=False))


def keywords(seed: int, count: int) -> Labelled:
    """Return features [n, 1, 49, 10] and labels of as many synthetic words."""
    rng = np.random.default_rng(seed)
    vowels = words()
    labels = rng.integers(0, WORDS, count)
    return np.stack([_features(_spoken(vowels[label], rng))[None] for label in labels]), labels


def _spoken(vowels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
    tract, pitch = rng.uniform(0.9, 1.2), rng.uniform(90, 240)
    length = int(RATE * rng.uniform(0.45, 0.8))
    at = np.linspace(0, len(vowels) - 1, length)
    formants = np.array([FORMANTS[vowel] for vowel in vowels]) * tract
    tracks = [np.interp(at, np.arange(len(vowels)), formants[:, which]) for which in range(2)]
    phase = 2 * np.pi * np.cumsum(pitch * (1 + 0.1 * np.sin(np.linspace(0, 3, length)))) / RATE
    voice = np.zeros(length)
    for harmonic in range(1, int(RATE / 2 / pitch / 1.2)):
        level = sum(np.exp(-(((harmonic * pitch - track) / 120) ** 2)) for track in tracks) + 0.02
        voice += level * np.sin(harmonic * phase) / harmonic**0.5
    voice *= np.hanning(length) ** 0.3
    word = rng.normal(0, rng.uniform(0.3, 1.5) * voice.std(), RATE)
    start = rng.integers(0, RATE - length)
    word[start : start + length] += voice
    return word


def _features(audio: NDArray[np.float64]) -> Floats:
    """Return MFCCs [frames, coefficients], with values of about 1."""
    _, _, power = signal.stft(audio, RATE, nperseg=FRAME, noverlap=FRAME - STEP, boundary=None, padded=False)
    mel = np.linspace(0, 2595 * np.log10(1 + RATE / 2 / 700), BANDS + 2)
    edges = (700 * (10 ** (mel / 2595) - 1)) / (RATE / 2) * (len(power) - 1)
    bins = np.arange(len(power))
    bands = np.stack([np.interp(bins, edges[i : i + 3], [0, 1, 0]) for i in range(BANDS)])
    cepstrum = fft.dct(np.log(bands @ np.abs(power) ** 2 + 1e-9), axis=0, norm="ortho")[:COEFFICIENTS]
    return np.ascontiguousarray(cepstrum.T[:FRAMES] / 10).astype(np.float32)
