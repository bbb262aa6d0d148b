"""Makes small random checkpoints of any geometry in the published format.

    make_checkpoint.py OUT --geometry k3 --set num_hidden_layers=5 --seed 3 --shards 3

The values are drawn so that every part of the arithmetic matters: logits have a standard
deviation of one to three, gates and decays are neither open nor shut, the state lasts for
several positions, and padding (A_log) holds numbers that would do harm if used.
"""

import argparse
import copy
import json
import os
import re
import sys
from dataclasses import dataclass, field
from typing import Dict, List, Tuple

import numpy as np

import config as config_module
import safetensors
import tensors
from checkpoint import E2M1, PREFIX

QUANTIZATION = {
    "quant_method": "compressed-tensors",
    "format": "mxfp4-pack-quantized",
    "config_groups": {"group_0": {
        "format": "mxfp4-pack-quantized", "targets": ["Linear"],
        "weights": {"group_size": 32, "num_bits": 4, "type": "float", "strategy": "group",
                    "scale_dtype": "torch.uint8", "symmetric": True, "dynamic": False}}},
}

# Two whole geometries to start from; `--set` and make() change single fields.
GEOMETRIES = {
    "k3": {
        "model_type": "kimi_linear", "architectures": ["KimiLinearForCausalLM"],
        "hidden_size": 48, "num_hidden_layers": 7, "vocab_size": 199,
        "rms_norm_eps": 1e-5, "hidden_act": "situ", "intermediate_size": 80,
        "activation_situ_beta": 4.0, "activation_situ_linear_beta": 25.0,
        "attn_res_block_size": 3,
        "linear_attn_config": {
            "num_heads": 2, "head_dim": 16, "short_conv_kernel_size": 4,
            "kda_layers": [1, 2, 4, 5], "full_attn_layers": [3, 6, 7],
            "gate_lower_bound": -5.0, "use_full_rank_gate": True},
        "num_attention_heads": 2, "num_key_value_heads": 2, "q_lora_rank": 24,
        "kv_lora_rank": 20, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
        "mla_use_nope": True, "mla_use_output_gate": True, "num_experts": 8,
        "num_experts_per_token": 3, "num_shared_experts": 2, "moe_intermediate_size": 32,
        "routed_expert_hidden_size": 32, "latent_moe_use_norm": True,
        "moe_router_activation_func": "sigmoid", "moe_renormalize": True,
        "routed_scaling_factor": 1.0, "num_expert_group": 1, "topk_group": 1,
        "first_k_dense_replace": 1, "moe_layer_freq": 1, "tie_word_embeddings": False,
        "num_nextn_predict_layers": 0, "bos_token_id": 0, "eos_token_id": 1,
        "pad_token_id": 2, "max_position_embeddings": 1048576, "dtype": "bfloat16",
        "use_grouped_topk": True, "topk_method": "noaux_tc",
        "quantization_config": QUANTIZATION,
    },
    "kimi-linear": {
        "model_type": "kimi_linear", "architectures": ["KimiLinearForCausalLM"],
        "hidden_size": 40, "num_hidden_layers": 5, "vocab_size": 173, "head_dim": 72,
        "rms_norm_eps": 1e-5, "hidden_act": "silu", "intermediate_size": 72,
        "linear_attn_config": {
            "num_heads": 3, "head_dim": 16, "short_conv_kernel_size": 4,
            "kda_layers": [1, 2, 3, 5], "full_attn_layers": [4]},
        "num_attention_heads": 2, "num_key_value_heads": 2, "q_lora_rank": None,
        "kv_lora_rank": 20, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
        "mla_use_nope": True, "num_experts": 12, "num_experts_per_token": 3,
        "num_shared_experts": 1, "moe_intermediate_size": 24,
        "moe_router_activation_func": "sigmoid", "moe_renormalize": True,
        "routed_scaling_factor": 2.446, "num_expert_group": 4, "topk_group": 2,
        "first_k_dense_replace": 1, "moe_layer_freq": 1, "tie_word_embeddings": False,
        "num_nextn_predict_layers": 0, "bos_token_id": 0, "eos_token_id": 1,
        "pad_token_id": 2, "model_max_length": 1048576, "dtype": "bfloat16",
        "use_grouped_topk": True, "topk_method": "noaux_tc", "rope_theta": 10000.0,
    },
}


@dataclass
class Options:
    """How a checkpoint is laid out and how its values are bent; see --help."""

    seed: int = 0
    nested: bool = True
    prefix: bool = True
    shards: int = 1
    index: bool = True
    shuffle: bool = False
    unaligned: bool = False
    vision: bool = False
    islands: str = "F32"
    a_log: str = "padded"
    scale: Dict[str, float] = field(default_factory=dict)
    shift: Dict[str, float] = field(default_factory=dict)
    ties: List[Tuple[int, ...]] = field(default_factory=list)
    extreme_scales: bool = False


def set_field(fields, name, value):
    """Sets `a.b` in nested dictionaries; the value None removes nothing, it writes null."""
    *path, last = name.split(".")
    for part in path:
        fields = fields[part]
    fields[last] = value


def quantize(values):
    """Rounds [rows, columns] to MXFP4: (packed, scale). Small negatives become -0."""
    groups = values.reshape(len(values), -1, 32)
    largest = np.maximum(abs(groups).max(axis=-1), 2.0**-100)
    exponent = np.ceil(np.log2(largest / 6))
    scaled = groups / np.exp2(exponent)[..., None]
    magnitude = abs(abs(scaled)[..., None] - E2M1[:8]).argmin(axis=-1)
    codes = (magnitude + 8 * np.signbit(scaled)).astype(np.uint8).reshape(values.shape)
    return pack(codes), (exponent + 127).astype(np.uint8)


def pack(codes):
    return (codes[:, 0::2] | codes[:, 1::2] << 4).astype(np.uint8)


def extreme_expert(rng, w1, w3, w2):
    """MXFP4 codes and scales at both ends of the range, for the three matrices of an expert.

    w3 works at 2^-127 or 2^-126 and w2 undoes it with 2^127 or 2^126, so every bit of the
    product matters: flushing a subnormal scale to zero removes the expert. In w2 no value
    exceeds the f32 range. In w1 one group of every row has the largest scale and only +0 and
    -0, and some rows of w2 are such zeros altogether.
    """
    out = {}
    codes, scales = w1
    zero_group = rng.integers(scales.shape[1])
    codes[:, zero_group * 32:zero_group * 32 + 32] = rng.choice([0, 8], (len(codes), 32))
    scales[:, zero_group] = 254
    out["w1"] = codes, scales
    codes, scales = w3
    out["w3"] = codes, rng.choice([0, 1], scales.shape)
    codes, scales = w2
    codes = rng.choice([0, 1, 2, 3, 8, 9, 10, 11], codes.shape)
    scales = rng.choice([253, 254], scales.shape)
    zero_rows = rng.random(len(codes)) < 0.1
    codes[zero_rows] = rng.choice([0, 8], (zero_rows.sum(), codes.shape[1]))
    scales[zero_rows] = 254
    out["w2"] = codes, scales
    return out


class Maker:
    """Draws the tensors of one checkpoint in the order of the tensor table."""

    def __init__(self, config, options):
        self.config = config
        self.options = options
        self.rng = np.random.default_rng(options.seed)
        self.quantized = {}  # expert matrix -> (packed, scale), until both are handed out

    def draw(self, spec):
        """The numbers of a tensor before any option bends them."""
        name, normal = spec.name, lambda std: self.rng.normal(0, std, spec.shape)
        if spec.kind == "a_log":
            return normal(0.7)
        if name.endswith("embed_tokens.weight"):
            return normal(1.0)
        if name.endswith("dt_bias"):
            return normal(1.0) - 2.5
        if name.endswith("e_score_correction_bias"):
            return normal(0.25 if self.config.router == "sigmoid" else 0.5 / self.config.experts)
        if name.endswith("_conv1d.weight"):
            return normal(self.config.taps**-0.5)
        if spec.kind in ("vector", "island"):
            return 1 + normal(0.25)
        return normal(self.gain(name) * spec.shape[-1]**-0.5)

    @staticmethod
    def gain(name):
        """Of a matrix: the standard deviation of its outputs for inputs of one."""
        for pattern, gain in (("lm_head", 2.0), (r"moe\.gate\.", 1.5), ("q_b_proj", 1.5),
                              (r"self_attn\.q_proj", 1.3), ("f_[ab]_proj", 1.2),
                              (r"experts\.\d+\.", 1.7), ("_res_proj", 0.7),
                              ("o_proj", 1.2), ("down_proj|up_proj|gate_proj", 1.5)):
            if re.search(pattern, name):
                return gain
        return 1.0

    def bend(self, name, values):
        for pattern, factor in self.options.scale.items():
            if re.search(pattern, name):
                values = values * factor
        for pattern, shift in self.options.shift.items():
            if re.search(pattern, name):
                values = values + shift
        if re.search(r"moe\.gate\.", name):
            for first, *others in self.options.ties:
                values[others] = values[first]
        return values

    def a_log(self, values):
        if self.options.a_log == "4d":
            return values.reshape(1, 1, -1, 1)
        if self.options.a_log == "heads":
            return values
        padding = self.rng.normal(0, 1.5, max(self.config.kda_dim - len(values), 0))
        return np.concatenate([values, padding])

    def mxfp4(self, spec):
        """One half of an expert matrix; the first half asked for draws the whole expert."""
        matrix = re.sub("_(packed|scale)$", "", spec.name)
        if matrix not in self.quantized:
            self.draw_expert(matrix[:-len("w1.weight")])
        return self.quantized[matrix][spec.kind]

    def draw_expert(self, at):
        z, width = self.config.expert_input, self.config.expert_width
        parts = {}
        for part, shape in (("w1", (width, z)), ("w3", (width, z)), ("w2", (z, width))):
            spec = tensors.Spec(at + part + ".weight", shape, "matrix")
            parts[part] = quantize(self.bend(spec.name, self.draw(spec)))
        if self.options.extreme_scales:
            unpacked = {}
            for part, (packed, scale) in parts.items():
                codes = np.stack([packed & 15, packed >> 4], axis=-1)
                unpacked[part] = codes.reshape(len(packed), -1), scale
            bent = extreme_expert(self.rng, **unpacked)
            parts = {part: (pack(codes), scale) for part, (codes, scale) in bent.items()}
        for part, (packed, scale) in parts.items():
            self.quantized[at + part + ".weight"] = {"packed": packed, "scale": scale}

    def make(self, spec):
        if spec.kind in ("packed", "scale"):
            return safetensors.store(self.mxfp4(spec), "U8")
        values = self.bend(spec.name, self.draw(spec))
        if spec.kind == "a_log":
            values = self.a_log(values)
        island = spec.kind in ("island", "a_log")
        return safetensors.store(values, self.options.islands if island else "BF16")

    def all(self):
        prefix = PREFIX if self.options.prefix else ""
        made = {prefix + spec.name: self.make(spec) for spec in tensors.table(self.config)}
        if self.options.vision:
            for name, shape in (("vision_tower.patch_embed.proj.weight", (6, 3, 2, 2)),
                                ("mm_projector.proj.0.weight", (5, 6))):
                made[name] = safetensors.store(self.rng.normal(0, 1, shape), "BF16")
        return made


def split(made, options):
    """Cuts {name: Tensor} into `shards` dictionaries of about equal bytes."""
    names = list(made)
    if options.shuffle:
        np.random.default_rng(options.seed + 1).shuffle(names)
    total = sum(tensor.raw.nbytes for tensor in made.values())
    shards, written = [{} for _ in range(options.shards)], 0
    for name in names:
        shards[min(written * options.shards // total, options.shards - 1)][name] = made[name]
        written += made[name].raw.nbytes
    return shards


def write_json(path, value):
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.write("\n")
    os.replace(path + ".tmp", path)


def make(folder, fields, options):
    """Writes config.json, the shards and (unless there is one file without) the index."""
    document = fields
    if options.nested:
        document = {"architectures": ["KimiK3ForConditionalGeneration"],
                    "model_type": "kimi_k3", "tie_word_embeddings": False,
                    "bos_token_id": fields["bos_token_id"], "text_config": fields,
                    "eos_token_id": fields["eos_token_id"]}
    os.makedirs(folder, exist_ok=True)
    made = Maker(config_module.parse(document), options).all()
    write_json(os.path.join(folder, "config.json"), document)
    weight_map = {}
    for number, shard in enumerate(split(made, options), 1):
        name = f"model-{number:05}-of-{options.shards:06}.safetensors"
        if not options.index:
            name = "model.safetensors"
        safetensors.write_file(os.path.join(folder, name), shard, options.unaligned)
        weight_map.update(dict.fromkeys(shard, name))
    if options.index:
        size = sum(tensor.raw.nbytes for tensor in made.values())
        write_json(os.path.join(folder, "model.safetensors.index.json"),
                   {"metadata": {"total_size": size}, "weight_map": weight_map})


def geometry(name, changes=()):
    """A copy of a geometry with `{dotted field: value}` applied."""
    fields = copy.deepcopy(GEOMETRIES[name])
    for key, value in dict(changes).items():
        set_field(fields, key, value)
    return fields


def _assignment(text):
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text}: NAME=VALUE expected")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--geometry", choices=sorted(GEOMETRIES), default="k3")
    parser.add_argument("--config", help="a config.json to use instead of --geometry")
    parser.add_argument("--set", type=_assignment, action="append", default=[],
                        metavar="FIELD=JSON", help="change a field of the text config")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--no-index", action="store_true", help="one model.safetensors")
    parser.add_argument("--flat", action="store_true", help="config without text_config")
    parser.add_argument("--no-prefix", action="store_true", help="names without language_model.")
    parser.add_argument("--shuffle", action="store_true", help="tensors in random order")
    parser.add_argument("--unaligned", action="store_true", help="data at an odd file offset")
    parser.add_argument("--vision", action="store_true", help="add tensors to be ignored")
    parser.add_argument("--islands", choices=["F32", "BF16"], default="F32",
                        help="dtype of the small vectors that K3 keeps in F32")
    parser.add_argument("--a-log", choices=["padded", "heads", "4d"], default="padded")
    parser.add_argument("--scale", type=_assignment, action="append", default=[],
                        metavar="PATTERN=FACTOR", help="multiply tensors whose name matches")
    parser.add_argument("--shift", type=_assignment, action="append", default=[],
                        metavar="PATTERN=VALUE", help="add to tensors whose name matches")
    parser.add_argument("--tie", action="append", default=[], metavar="E,E,...",
                        help="give these experts equal router rows and biases")
    parser.add_argument("--extreme-scales", action="store_true",
                        help="experts with scale bytes 0, 1, 253 and 254")
    a = parser.parse_args()
    if a.no_index and a.shards != 1:
        parser.error("--no-index needs --shards 1")
    fields = geometry(a.geometry)
    if a.config:
        with open(a.config, encoding="utf-8") as file:
            document = json.load(file)
        fields = document.get("text_config", document)
    for name, value in a.set:
        set_field(fields, name, value)
    make(a.folder, fields, Options(
        seed=a.seed, nested=not a.flat, prefix=not a.no_prefix, shards=a.shards,
        index=not a.no_index, shuffle=a.shuffle, unaligned=a.unaligned, vision=a.vision,
        islands=a.islands, a_log=a.a_log, scale=dict(a.scale), shift=dict(a.shift),
        ties=[tuple(int(e) for e in tie.split(",")) for tie in a.tie],
        extreme_scales=a.extreme_scales))
    return 0


if __name__ == "__main__":
    sys.exit(main())
