"""Builds GGUF files by hand, byte after byte, from the specification."""

import struct


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def pair(key, kind, data):
    return text(key) + struct.pack("<I", kind) + data


def entry(name, shape, kind, offset):
    """``shape`` outermost axis first; the file has it the other way round."""
    axes = b"".join(struct.pack("<Q", size) for size in reversed(shape))
    return text(name) + struct.pack("<I", len(shape)) + axes + struct.pack("<IQ", kind, offset)


def gguf(tensors=(), pairs=(), *, version=3, magic=b"GGUF", alignment=32):
    """A file of (name, shape, kind, data) tensors and of pairs already in bytes."""
    head = magic + struct.pack("<IQQ", version, len(tensors), len(pairs)) + b"".join(pairs)
    data = b""
    for name, shape, kind, content in tensors:
        head += entry(name, shape, kind, len(data))
        data += content + b"\0" * (-len(content) % alignment)
    return head + b"\0" * (-len(head) % alignment) + data
