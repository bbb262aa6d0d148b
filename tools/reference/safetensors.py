"""Reads and writes safetensors files with NumPy alone."""

import json
import os
import struct

import numpy as np

# dtype name in the header -> NumPy type of the raw elements (BF16 stays as its 16 bits).
RAW_TYPES = {
    "BF16": np.dtype("<u2"),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "U8": np.dtype("u1"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
}


class Tensor:
    """One tensor as stored: dtype name and raw elements in the stored shape."""

    def __init__(self, dtype, raw):
        self.dtype = dtype
        self.raw = raw

    def values(self):
        """The stored numbers in float64 (exact for every floating type here)."""
        if self.dtype == "BF16":
            return bf16_to_f32(self.raw).astype(np.float64)
        return self.raw.astype(np.float64)


def bf16_to_f32(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def f32_to_bf16(values):
    """Rounds to nearest, ties to even; returns the 16 bits. NaN is not expected here."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def store(values, dtype):
    """Makes a Tensor of `dtype` ("BF16", "F32" or "U8") from an array of numbers."""
    if dtype == "BF16":
        return Tensor(dtype, f32_to_bf16(values))
    return Tensor(dtype, np.ascontiguousarray(values, dtype=RAW_TYPES[dtype]))


def read_header(path):
    """Returns (file offset of the data, {name: entry}) after checking every extent."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        start = file.read(8)
        if len(start) < 8:
            raise ValueError(f"{path}: too short for a safetensors file")
        (length,) = struct.unpack("<Q", start)
        if length > size - 8:
            raise ValueError(f"{path}: header of {length} bytes exceeds the file of {size}")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    data = 8 + length
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        count = int(np.prod(entry["shape"], dtype=np.int64))
        if entry["dtype"] not in RAW_TYPES:
            raise ValueError(f"{path}: {name}: unknown dtype {entry['dtype']}")
        if end - begin != count * RAW_TYPES[entry["dtype"]].itemsize:
            raise ValueError(f"{path}: {name}: {end - begin} bytes do not fit its shape")
        if not 0 <= begin <= end <= size - data:
            raise ValueError(f"{path}: {name}: data outside the file")
    return data, header


def read_tensor(path, data, entry):
    begin, end = entry["data_offsets"]
    with open(path, "rb") as file:
        file.seek(data + begin)
        raw = file.read(end - begin)
    return Tensor(entry["dtype"],
                  np.frombuffer(raw, RAW_TYPES[entry["dtype"]]).reshape(entry["shape"]))


def write_file(path, tensors, odd_header=False):
    """Writes {name: Tensor} in the given order, without gaps.

    odd_header makes the data start at an odd file offset, so that no tensor of a wider
    type is aligned. The file appears under its name only when complete.
    """
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": tensor.dtype, "shape": list(tensor.raw.shape),
                        "data_offsets": [offset, offset + tensor.raw.nbytes]}
        offset += tensor.raw.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * ((len(text) + 1) % 2 if odd_header else -len(text) % 8)
    with open(path + ".tmp", "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for tensor in tensors.values():
            file.write(tensor.raw.tobytes())
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".tmp", path)
