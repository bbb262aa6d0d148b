"""The published checkpoint format: names, dtypes, shards and index, written and read."""

import json
import struct
from pathlib import Path

import numpy as np
import torch

from . import mxfp4
from .geometry import Geometry
from .model import Model

PREFIX = "language_model."
SHARDS = 3
_DTYPES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.uint8: "U8"}
_F32 = ("A_log", "dt_bias", "conv1d", "o_norm", "e_score_correction_bias")
_NO_SUFFIX = ("A_log", "dt_bias", "e_score_correction_bias")
_MOE = {
    "gate": "gate",
    "bias": "gate.e_score_correction_bias",
    "down": "routed_expert_down_proj",
    "norm": "routed_expert_norm",
    "up": "routed_expert_up_proj",
    "shared.gate_proj": "shared_experts.gate_proj",
    "shared.up_proj": "shared_experts.up_proj",
    "shared.down_proj": "shared_experts.down_proj",
}


def _published_name(name):
    """The published name of a parameter that is not a routed expert."""
    if ".block_sparse_moe." in name:
        layer, own = name.split(".block_sparse_moe.")
        name = f"{layer}.block_sparse_moe.{_MOE[own]}"
    if name != "lm_head":
        name = "model." + name
    return PREFIX + name + ("" if name.endswith(_NO_SUFFIX) else ".weight")


def _expert_base(layer, expert, which):
    return f"{PREFIX}model.layers.{layer}.block_sparse_moe.experts.{expert}.{which}"


def _is_expert(name):
    return name.endswith((".w1", ".w2", ".w3"))


def _skipped(name):
    return name.endswith(".load")


def _stored(model, name, value):
    """The value in its published dtype and shape."""
    if name.endswith("A_log"):
        value = torch.cat((value, value.new_zeros(model.g.kda_dim - value.numel())))
    if "conv1d" in name:
        value = value[:, None]
    return value.detach().to(torch.float32 if any(n in name for n in _F32) else torch.bfloat16).contiguous()


def published_tensors(model):
    """[(name, tensor, layer or None)] of a model, each layer's experts after its other tensors."""
    plain, experts = [], []
    for name, value in model.state_dict().items():
        if _skipped(name):
            continue
        layer = int(name.split(".")[1]) if name.startswith("layers.") else None
        if not _is_expert(name):
            plain.append((_published_name(name), _stored(model, name, value), layer))
            continue
        packed, scale = mxfp4.pack(value)
        for e in range(value.shape[0]):
            base = _expert_base(layer, e, name.rsplit(".", 1)[1])
            experts.append((f"{base}.weight_packed", packed[e], layer))
            experts.append((f"{base}.weight_scale", scale[e], layer))
    experts.sort(key=lambda item: (item[2], int(item[0].split("experts.")[1].split(".")[0])))
    return plain + experts


def _write_shard(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, value, _ in tensors:
        size = value.numel() * value.element_size()
        header[name] = {"dtype": _DTYPES[value.dtype], "shape": list(value.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, value, _ in tensors:
            f.write(value.contiguous().view(torch.uint8).numpy().tobytes())
    return at


def save(model, folder, tokenizer, context=1048576):
    """Writes a complete published-format checkpoint. Layers are spread over the shards in order;
    embedding, final norm and head are in the last."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    shards = [[] for _ in range(SHARDS)]
    for item in published_tensors(model):
        layer = item[2]
        shards[SHARDS - 1 if layer is None else layer * SHARDS // model.g.layers].append(item)
    index, total = {}, 0
    for i, tensors in enumerate(shards):
        name = f"model-{i + 1:05d}-of-{SHARDS:06d}.safetensors"
        total += _write_shard(folder / name, tensors)
        index.update({tensor: name for tensor, _, _ in tensors})
    ids = {
        "bos": tokenizer.special["[BOS]"],
        "eos": tokenizer.special["<|end_of_msg|>"],
        "pad": tokenizer.special["[PAD]"],
        "media": tokenizer.special["<|media_pad|>"],
    }
    documents = {
        "config.json": model.g.to_config(ids, context),
        "generation_config.json": {"max_length": context, "eos_token_id": ids["eos"]},
        "model.safetensors.index.json": {"metadata": {"total_size": total}, "weight_map": index},
        "tokenizer_config.json": tokenizer.config(),
    }
    for name, value in documents.items():
        (folder / name).write_text(json.dumps(value, indent=2) + "\n")
    (folder / "tiktoken.model").write_bytes(tokenizer.rank_file())


def _read_shard(path):
    data = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    kinds = {label: dtype for dtype, label in _DTYPES.items()}
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            raw = torch.from_numpy(np.frombuffer(data[begin:end], dtype=np.uint8).copy())
            tensors[name] = raw.view(kinds[entry["dtype"]]).view(entry["shape"])
    return tensors


def load(folder):
    """The model of a published-format checkpoint, its weights exactly as stored, in float32."""
    folder = Path(folder)
    model = Model(Geometry.from_config(json.loads((folder / "config.json").read_text())))
    index = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    tensors = {}
    for shard in sorted(set(index.values())):
        tensors.update(_read_shard(folder / shard))
    state = {}
    for name, value in model.state_dict().items():
        if _skipped(name):
            state[name] = value
        elif _is_expert(name):
            layer, which = int(name.split(".")[1]), name.rsplit(".", 1)[1]
            bases = [_expert_base(layer, e, which) for e in range(value.shape[0])]
            rows = [mxfp4.unpack(tensors[f"{b}.weight_packed"], tensors[f"{b}.weight_scale"]) for b in bases]
            state[name] = torch.stack(rows)
        else:
            stored = tensors[_published_name(name)].float()
            if name.endswith("A_log"):
                stored = stored.flatten()[: model.g.kda_heads]
            state[name] = stored.reshape(value.shape)
    model.load_state_dict(state)
    return model
