"""The GGUF reader against files built byte by byte, values by formula; damage is refused."""

import random
import struct

import numpy as np
import pytest

from headwise.core import HeadwiseError
from headwise.models.gguf import GGUF
from tests.models.gguf_bytes import entry, gguf, pair, text


def q4_1(scale, least, quants):
    """32 values from 0 to 15: the first 16 are the low halves of the bytes, the others the high halves."""
    return struct.pack("<ee16B", scale, least, *(quants[i] | quants[16 + i] << 4 for i in range(16)))


def q8_0(scale, quants):
    return struct.pack("<e32b", scale, *quants)


def random_quants(low, high, seed):
    generator = random.Random(seed)
    return [generator.randint(low, high) for _ in range(32)]


def half(number):
    """The number as a half-precision float keeps it, by the standard library."""
    return struct.unpack("<e", struct.pack("<e", number))[0]


def opened(tmp_path, *args, **kwargs):
    file = tmp_path / "tiny.gguf"
    file.write_bytes(gguf(*args, **kwargs))
    return GGUF(file)


def test_float32_and_float16(tmp_path):
    numbers = [0.1, -2.5, 3e-5, 65504.0, 1.0, -0.0]
    file = opened(
        tmp_path,
        [
            ("wide", (2, 3), 0, struct.pack("<6f", *numbers)),
            ("half", (3, 2), 1, struct.pack("<6e", *numbers)),
        ],
    )
    assert file.names == ["wide", "half"]
    assert file.tensor("wide").tolist() == np.array(numbers, np.float32).reshape(2, 3).tolist()
    assert file.tensor("half").tolist() == np.array([half(x) for x in numbers]).reshape(3, 2).tolist()
    assert file.tensor("half").dtype == np.float32


def test_q8_0_is_scale_times_quant(tmp_path):
    rows = [(0.0371, random_quants(-128, 127, 1)), (-12.7, random_quants(-128, 127, 2))]
    file = opened(tmp_path, [("w", (2, 32), 8, b"".join(q8_0(*row) for row in rows))])
    # a half has 11 bits and a quant 8: their product is exact in float32
    assert file.tensor("w").tolist() == [[half(scale) * quant for quant in quants] for scale, quants in rows]


def test_q4_1_is_scale_times_quant_plus_least(tmp_path):
    rows = [(0.0371, -0.29, random_quants(0, 15, seed)) for seed in range(2)] + [(-3.3, 7.7, [15] * 32)]
    file = opened(tmp_path, [("w", (1, 3, 32), 3, b"".join(q4_1(*row) for row in rows))])
    # the product is exact in float32, so the sum is rounded once, as float64 rounded to float32 is
    expected = [[np.float32(half(s) * quant + half(m)) for quant in quants] for s, m, quants in rows]
    assert file.tensor("w").tolist() == np.array([expected]).tolist()


def test_a_row_of_several_blocks(tmp_path):
    blocks = [(1.0, [block] * 32) for block in range(4)]
    file = opened(tmp_path, [("w", (2, 64), 8, b"".join(q8_0(*block) for block in blocks))])
    assert file.tensor("w").tolist() == [[0.0] * 32 + [1.0] * 32, [2.0] * 32 + [3.0] * 32]


def test_metadata_of_every_type(tmp_path):
    numbers = {
        0: ("B", 200), 1: ("b", -5), 2: ("H", 60000), 3: ("h", -300), 4: ("I", 2**32 - 1), 5: ("i", -7),
        6: ("f", 0.5), 7: ("?", True), 10: ("Q", 2**64 - 1), 11: ("q", -(2**63)), 12: ("d", 0.1),
    }  # fmt: skip
    pairs = [
        pair(f"n{kind}", kind, struct.pack(f"<{code}", value)) for kind, (code, value) in numbers.items()
    ]
    pairs += [
        pair("word", 8, text("café")),
        pair("words", 9, struct.pack("<IQ", 8, 2) + text("a") + text("")),
        pair("whole", 9, struct.pack("<IQ3i", 5, 3, 1, -2, 3)),
    ]
    metadata = opened(tmp_path, pairs=pairs).metadata
    assert {f"n{kind}": value for kind, (_, value) in numbers.items()}.items() <= metadata.items()
    assert (metadata["word"], metadata["words"], metadata["whole"]) == ("café", ["a", ""], [1, -2, 3])


def test_the_alignment_is_that_of_the_file(tmp_path):
    wide = pair("general.alignment", 4, struct.pack("<I", 128))
    file = opened(tmp_path, [("w", (1,), 0, struct.pack("<f", 4.5))], [wide], alignment=128)
    assert file.tensor("w").tolist() == [4.5]


WEIGHT = ("w", (32,), 8, q8_0(1.0, [1] * 32))
WHOLE = gguf([WEIGHT], [pair("k", 8, text("value")), pair("a", 9, struct.pack("<IQ2I", 4, 2, 1, 2))])
HEAD = struct.pack("<4sIQQ", b"GGUF", 3, 1, 0)


def test_no_cut_of_a_file_is_taken_for_the_whole(tmp_path):
    for length in range(len(WHOLE) - 30):  # the last 30 bytes are padding
        (tmp_path / "cut.gguf").write_bytes(WHOLE[:length])
        with pytest.raises(HeadwiseError, match=r"ends|does not start"):
            GGUF(tmp_path / "cut.gguf")


def test_no_single_damaged_byte_of_the_header_raises_anything_else(tmp_path):
    data = len(WHOLE) - 64
    for place in range(data):
        for value in (0, 1, 127, 255):
            (tmp_path / "hurt.gguf").write_bytes(WHOLE[:place] + bytes([value]) + WHOLE[place + 1 :])
            try:
                file = GGUF(tmp_path / "hurt.gguf")
                assert all(file.tensor(name).dtype == np.float32 for name in file.names)
            except HeadwiseError:
                pass


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "does not start with the letters GGUF"),
        (gguf(magic=b"GGML"), "does not start with the letters GGUF"),
        (gguf(version=2), "of version 2"),
        (gguf([("w", (32,), 2, bytes(18))]), "Tensor w is stored as type 2, which is not read"),
        (gguf([("w", (2, 16), 8, bytes(34))]), "Tensor w has rows of 16 in blocks of 32"),
        (gguf([("w", (64,), 8, q8_0(1.0, [1] * 32))]), "ends before tensor w does"),
        (gguf([WEIGHT, WEIGHT]), "Two of its tensors have the same name"),
        (gguf([("w", (), 0, b"")]), "Tensor w has 0 axes"),
        (gguf([("w", (1,) * 5, 0, bytes(4))]), "Tensor w has 5 axes"),
        (gguf([("w", (0, 4), 0, b"")]), "Tensor w is empty"),
        (gguf(pairs=[pair("k", 13, b"")]), "a value of the unknown type 13"),
        (gguf(pairs=[pair("k", 9, struct.pack("<IQ", 9, 0))]), "an array of type 9"),
        (gguf(pairs=[pair("k", 9, struct.pack("<IQ", 12, 2**61))]), "ends too early"),
        (gguf(pairs=[pair("k", 8, struct.pack("<Q", 2) + b"\xff\xff")]), "is no UTF-8"),
        (gguf(pairs=[pair("general.alignment", 4, bytes(4))]), "Its alignment is 0"),
        (HEAD + entry("w", (2**62, 2**62), 0, 0), "ends before tensor w does"),
        (HEAD[:8] + struct.pack("<QQ", 2**63, 2**63), "ends too early"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, content, why):
    file = tmp_path / "bad.gguf"
    file.write_bytes(content)
    with pytest.raises(HeadwiseError, match=why) as caught:
        GGUF(file)
    assert "bad.gguf" in str(caught.value)


def test_a_missing_fact_or_tensor_is_said(tmp_path):
    file = opened(tmp_path, [WEIGHT], [pair("k", 8, text("value"))])
    assert file.fact("k", str) == "value"
    with pytest.raises(HeadwiseError, match="Its layers is NoneType, not int"):
        file.fact("layers", int)
    with pytest.raises(HeadwiseError, match="Its k is str, not int"):
        file.fact("k", int)
    with pytest.raises(HeadwiseError, match="It has no tensor v"):
        file.tensor("v")
