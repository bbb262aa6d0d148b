"""Opens a checkpoint folder in the published format and hands out weights as numbers."""

import json
import os

import numpy as np

import config as config_module
import safetensors
import tensors

PREFIX = "language_model."
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def decode_mxfp4(packed, scale):
    """[rows, columns/2] bytes and [rows, columns/32] scale bytes -> [rows, columns] float64."""
    if (scale == 255).any():
        raise ValueError("scale byte 255 is NaN")
    codes = np.empty((packed.shape[0], packed.shape[1] * 2), np.uint8)
    codes[:, 0::2] = packed & 15
    codes[:, 1::2] = packed >> 4
    return E2M1[codes] * np.repeat(np.exp2(scale.astype(np.float64) - 127), 32, axis=1)


class Checkpoint:
    """The config and every tensor of one folder. Weights are read when first asked for."""

    def __init__(self, folder):
        self.config = config_module.load(os.path.join(folder, "config.json"))
        self._entries = {}  # name in the file -> (path, data offset, header entry)
        for path in self._shards(folder):
            data, header = safetensors.read_header(path)
            for name, entry in header.items():
                if name in self._entries:
                    raise ValueError(f"{path}: {name} is in {self._entries[name][0]} as well")
                self._entries[name] = (path, data, entry)
        nested = PREFIX + "model.embed_tokens.weight" in self._entries
        self._prefix = PREFIX if nested else ""
        self._check_shapes()

    @staticmethod
    def _shards(folder):
        index = os.path.join(folder, "model.safetensors.index.json")
        if not os.path.exists(index):
            return [os.path.join(folder, "model.safetensors")]
        with open(index, encoding="utf-8") as file:
            names = set(json.load(file)["weight_map"].values())
        return [os.path.join(folder, name) for name in sorted(names)]

    def _check_shapes(self):
        for spec in tensors.table(self.config):
            if self._prefix + spec.name not in self._entries:
                raise ValueError(f"{self._prefix}{spec.name} is missing")
            shape = tuple(self._entries[self._prefix + spec.name][2]["shape"])
            fits = shape == spec.shape
            if spec.kind == "a_log":
                fits = int(np.prod(shape)) >= spec.shape[0]
            if not fits:
                raise ValueError(f"{spec.name} has shape {shape}, the config asks {spec.shape}")

    def tensor(self, name):
        """The tensor as stored; the name without the language_model. prefix."""
        return safetensors.read_tensor(*self._entries[self._prefix + name])

    def weight(self, name):
        """The numbers of `name` in float64; `name` ends in .weight for MXFP4 experts too."""
        if self._prefix + name in self._entries:
            return self.tensor(name).values()
        try:
            return decode_mxfp4(self.tensor(name + "_packed").raw,
                                self.tensor(name + "_scale").raw)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
