"""Reads character vectors out of an R lazy-load database (.rdx index, .rdb data) without R."""

import gzip
import struct
import zlib

_SYMBOL, _PAIRLIST, _CHAR, _LOGICAL, _INTEGER, _STRING, _LIST = 1, 2, 9, 10, 13, 16, 19
_NULL, _REFERENCE = 254, 255


class _Reader:
    """One object in R's XDR serialisation, version 2 or 3."""

    def __init__(self, data):
        self.data, self.at, self.symbols = data, 0, []
        if self._take(2) != b"X\n":
            raise ValueError("not R's XDR serialisation")
        version = self._int()
        self._int(), self._int()
        if version == 3:
            self._take(self._int())
        elif version != 2:
            raise ValueError(f"R serialisation version {version} is not known")

    def _take(self, count):
        self.at += count
        if self.at > len(self.data):
            raise ValueError("R object ends early")
        return self.data[self.at - count : self.at]

    def _int(self):
        return struct.unpack(">i", self._take(4))[0]

    def item(self):
        flags = self._int()
        kind, has_attributes, has_tag = flags & 0xFF, flags & 0x200, flags & 0x400
        if kind == _NULL:
            return None
        if kind == _REFERENCE:
            return self.symbols[(flags >> 8) - 1]
        if kind == _SYMBOL:
            self.symbols.append(self.item())
            return self.symbols[-1]
        if kind == _PAIRLIST:
            return self._pairs(has_attributes, has_tag)
        if kind == _CHAR:
            length = self._int()
            return None if length < 0 else self._take(length).decode("utf-8")
        return self._vector(kind, has_attributes)

    def _pairs(self, has_attributes, has_tag):
        if has_attributes:
            self.item()
        tag = self.item() if has_tag else None
        head = self.item()
        return [(tag, head)] + (self.item() or [])

    def _vector(self, kind, has_attributes):
        count = self._int()
        if kind in (_LOGICAL, _INTEGER):
            values = list(struct.unpack(f">{count}i", self._take(4 * count)))
        elif kind in (_STRING, _LIST):
            values = [self.item() for _ in range(count)]
        else:
            raise ValueError(f"R type {kind} is not read here")
        names = dict(self.item()).get("names") if has_attributes else None
        return dict(zip(names, values)) if names else values


def read_vectors(stem):
    """{name: list of strings} of the database `stem`.rdx / `stem`.rdb."""
    with gzip.open(f"{stem}.rdx") as f:
        index = _Reader(f.read()).item()
    with open(f"{stem}.rdb", "rb") as f:
        data = f.read()
    result = {}
    for name, (offset, length) in index["variables"].items():
        raw = zlib.decompress(data[offset + 4 : offset + length])
        result[name] = _Reader(raw).item()
    return result
