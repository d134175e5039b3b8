# SPDX-License-Identifier: Apache-2.0
import copy
import json
import random
import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFWriter

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.decoder.gguf import Tensor, _matrix
from arm_ext.frontends.decoder.importer import DecoderSource, open_decoder
from arm_ext.pipeline.selftest import module_runner
from tests.arm_ext.frontends.decoder.decoders import (
    ARCHITECTURES,
    byte_tokenizer,
    edited,
    gguf,
    logits,
    saved,
)

IDS = np.random.default_rng(1).integers(0, 96, 14).astype(np.int32)


def run(source: DecoderSource, sizes: list[int]) -> list[np.ndarray]:
    """The logits after each chunk, computed by the compiled model on this machine."""
    found, at, states, runners = [], 0, None, {}
    for size in sizes:
        model = source.at({"ids": (size,)})
        runner = runners.setdefault(size, module_runner(model.mod))
        states = [state.initial for state in model.states] if states is None else states
        first, *states = runner([IDS[at : at + size], *(np.array(state) for state in states)])
        found.append(first)
        at += size
    return found


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_logits_are_those_of_transformers(name: str, tmp_path: Path):
    scaled = name == "Llama"
    expected = logits(name, IDS, scaled)
    source = open_decoder(saved(name, tmp_path / "hf", scaled), 16, "float32")
    found = run(source, [8, 1, 1, 1, 1, 1, 1])
    for at, values in zip(range(7, 14), found, strict=True):
        assert np.abs(values - expected[at]).max() <= 1e-4 * np.abs(expected[at]).max()
    if name in ("Llama", "Mistral"):  # other chunks; of blocks, see test_definition.py
        np.testing.assert_array_equal(run(source, [4, 4, 4, 1, 1])[-1], found[-1])


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name != "Mistral"])
def test_gguf_is_the_folder(name: str, tmp_path: Path):
    folder = saved(name, tmp_path / "hf")
    file = gguf(name, folder, tmp_path / "model.gguf")
    first, second = (open_decoder(path, 16, "float32") for path in (folder, file))
    inputs = [IDS[:4], *(np.array(state.initial) for state in first.at({"ids": (4,)}).states)]
    (a, *_), (b, *_) = (source.at({"ids": (4,)}).reference(inputs)[0] for source in (first, second))
    np.testing.assert_allclose(a, b, atol=1e-5 * np.abs(a).max())


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q8_0", "F16", "BF16"])
def test_quantised_weights_are_the_files_bit_for_bit(kind: str, tmp_path: Path):
    from gguf import GGUFReader, dequantize

    file = gguf("Llama", saved("Llama", tmp_path / "hf"), tmp_path / "model.gguf", kind)
    read = open_decoder(file, 16).decoder
    tensors = {tensor.name: tensor for tensor in GGUFReader(file).tensors}
    for own, source in (("0.down", "blk.0.ffn_down.weight"), ("embedding", "token_embd.weight")):
        tensor, matrix = tensors[source], read.matrices[own]
        expected = dequantize(tensor.data, tensor.tensor_type)
        # ggml adds the minimum after rounding the product; the definition here rounds once.
        np.testing.assert_allclose(getattr(matrix, "floats", matrix), expected, rtol=0, atol=2e-7)
        if kind.startswith("Q"):
            size = matrix.held.nbytes + matrix.scales.nbytes + getattr(matrix.offsets, "nbytes", 0)
            assert size == tensor.data.nbytes


@pytest.mark.parametrize(("kind", "scales"), [("Q4_K", 2), ("Q5_K", 2), ("Q6_K", 1)])
def test_k_quants_become_blocks(kind: str, scales: int):
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize

    elements, size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    rng = np.random.default_rng(4)
    data = rng.integers(0, 256, (5, 3, size), np.uint8)
    halves = rng.uniform(0.001, 0.01, (5, 3, scales)).astype(np.float16).view(np.uint8)
    if kind == "Q6_K":
        data[..., -2:] = halves
    else:
        data[..., :4] = halves
    tensor = Tensor("w", (5, 3 * elements), kind, data.reshape(5, -1))
    matrix, conversion = _matrix(Path("m.gguf"), tensor)
    expected = dequantize(tensor.data, GGMLQuantizationType[kind])
    found = np.abs(matrix.floats - expected).max() / np.abs(expected).max()
    # Rounded scales of 4 bits; a step of 8 bits, of the largest weight of each 32.
    assert found <= (2**-9 if kind == "Q4_K" else 0.5 / 127 + 2**-10)
    assert conversion == (f"{kind} became {matrix.bits}-bit blocks of 32", pytest.approx(found))


def test_a_tied_table_has_the_format_of_the_head(tmp_path: Path):
    read = open_decoder(saved("Llama", tmp_path / "hf"), 16, weights="int4").decoder
    assert read.head is read.matrices["embedding"]
    assert (read.matrices["0.q"].bits, read.head.bits) == (4, 8)
    ours, theirs = sorted(read.notes)
    assert re.fullmatch(r"1 matrices became 8-bit blocks of 32, off by at most 0\.\d %.*", ours)
    assert re.fullmatch(r"14 matrices became 4-bit blocks of 32, off by at most [6-9](\.\d)? %.*", theirs)


FAULTS = {
    "architecture": ({"model_type": "mamba"}, "architecture mamba is unsupported; supported are llama"),
    "unknown field": ({"mixture": 8}, "the field mixture, 8, is unsupported"),
    "no number": ({"hidden_size": "many"}, "the field hidden_size is many"),
    "rotations": ({"rope_parameters": {"rope_type": "yarn"}}, "rotations of the kind yarn"),
    "base of rotations": (
        {"rope_parameters": {"rope_theta": "many"}},
        r"the field rope_parameters\.rope_theta is many, not a number",
    ),
    "no base": (
        {"rope_parameters": {"rope_theta": 0.0}},
        r"rope_parameters\.rope_theta is 0\.0, not a number above",
    ),
    "layers beyond count": ({"num_hidden_layers": 2**31 - 1}, "not a whole number from 1 to 4,096"),
    "a head beyond memory": ({"head_dim": 2**31 - 8}, "not a whole number from 1 to 4,096"),
    "no name": ({"model_type": ["llama"]}, r"the field model_type is \['llama'\], not a name"),
    "no factor": (
        {"rope_parameters": {"rope_type": "llama3", "factor": 8.0}},
        r"the field rope_parameters\.low_freq_factor is missing",
    ),
    "no object": ({"rope_parameters": [1]}, r"the field rope_parameters is \[1\], not an object"),
    "ends": ({"eos_token_id": [0, "a"]}, r"the field eos_token_id\[1\] is a, not a number"),
    "activation": ({"hidden_act": "relu"}, "the activation relu is unsupported"),
    "heads that do not divide": ({"num_key_value_heads": 3}, "query heads for 3 of keys"),
    "a head of no multiple of 8": ({"head_dim": 12}, "of 12 elements"),
    "another shape": ({"intermediate_size": 95}, r"gate_proj.weight is \[96, 64\], not \[95, 64\]"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_folders_that_are_refused(name: str, tmp_path: Path):
    fields, message = FAULTS[name]
    folder = edited(saved("Llama", tmp_path / "hf"), **fields)
    with pytest.raises((UsageError, ModelError), match=message):
        open_decoder(folder)


def test_files_that_are_refused(tmp_path: Path):
    folder = saved("Llama", tmp_path / "hf")

    def window(writer: GGUFWriter) -> None:
        writer.add_sliding_window(8)

    file = gguf("Llama", folder, tmp_path / "model.gguf", change=window)
    with pytest.raises(ModelError, match=r"the field llama.attention.sliding_window"):
        open_decoder(file)
    with pytest.raises(UsageError, match="a context of 128 is more"):
        open_decoder(folder, 128)
    with pytest.raises(UsageError, match="a multiple of 8"):
        open_decoder(folder, 12)
    with pytest.raises(UsageError, match="no such file or folder"):
        open_decoder(tmp_path / "none.gguf")
    (folder / "model.safetensors").unlink()
    with pytest.raises(UsageError, match=r"holds neither model.safetensors nor"):
        open_decoder(folder)


@pytest.mark.parametrize("kind", ["Q4_0", "Q8_0", "F16"])
def test_weights_that_are_no_numbers_are_refused(kind: str, tmp_path: Path):
    from gguf import GGUFReader

    file = gguf("Llama", saved("Llama", tmp_path / "hf"), tmp_path / "model.gguf", kind)
    (place,) = (int(t.data_offset) for t in GGUFReader(file).tensors if t.name == "blk.0.ffn_up.weight")
    data = bytearray(file.read_bytes())
    data[place : place + 2] = np.float16(np.nan).tobytes()
    file.write_bytes(bytes(data))
    with pytest.raises(
        UsageError, match=r"the tensor blk\.0\.ffn_up\.weight holds values that are infinite or NaN"
    ):
        open_decoder(file)


_VALUES = (
    *(None, -1, 0, 1, 3, 7, 2**31 - 1, 2**63, 1e30, 1e-30, float("nan"), float("inf"), True, False, 1.5),
    *("x", "", "silu", [], {}, [1], [[1]], [None], ["sliding_attention"], {"a": 1}),
)


@pytest.mark.parametrize("count", [400, pytest.param(2000, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", ["Llama", "Mistral", "SmolLM3", "Qwen3", "Gemma3"])
def test_mutated_configurations_end_in_a_sentence(name: str, count: int, tmp_path: Path):
    folder, rng, refused = saved(name, tmp_path, name == "Llama"), random.Random(7), 0
    file = folder / "config.json"
    given = json.loads(file.read_text())
    for _ in range(count):
        changed = copy.deepcopy(given)
        fields = changed
        while isinstance(fields[key := rng.choice(list(fields))], dict) and fields[key]:
            fields = fields[key]
        fields[key] = rng.choice(_VALUES)
        file.write_text(json.dumps(changed))
        with suppress(UsageError, ModelError):
            open_decoder(folder)
            continue
        refused += 1
    assert refused >= count // 3


@pytest.mark.parametrize("count", [120, pytest.param(5000, marks=pytest.mark.long)])
@pytest.mark.parametrize("form", ["gguf", "safetensors"])
def test_mutated_files_end_in_a_sentence(form: str, count: int, tmp_path: Path):
    folder = saved("Llama", tmp_path / "hf")
    whole = gguf("Llama", folder, tmp_path / "model.gguf", "Q4_0", byte_tokenizer)
    victim = whole if form == "gguf" else folder / "model.safetensors"
    data, rng = victim.read_bytes(), np.random.default_rng(3)
    header = data.index(b"blk.1") if form == "gguf" else 8 + int.from_bytes(data[:8], "little")
    refused = 0
    for _ in range(count):
        changed = bytearray(data)
        kind = rng.choice(["byte", "number", "cut", "swap"])
        at = int(rng.integers(0, header))
        if kind == "byte":
            changed[at] ^= 1 << int(rng.integers(8))
        elif kind == "number":
            changed[at : at + 8] = (0, 1, 2**31, 2**63 - 1, 2**64 - 1)[rng.integers(5)].to_bytes(8, "little")
        elif kind == "cut":
            del changed[at + int(rng.integers(len(changed) - at)) :]
        else:
            other = int(rng.integers(0, header))
            changed[at : at + 4], changed[other : other + 4] = (
                changed[other : other + 4],
                changed[at : at + 4],
            )
        victim.write_bytes(bytes(changed))
        with suppress(UsageError, ModelError):
            open_decoder(whole if form == "gguf" else folder)
            continue
        refused += 1
    assert refused >= count // 3
