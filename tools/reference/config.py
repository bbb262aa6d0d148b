"""Reads config.json, nested or flat, and refuses what would change the arithmetic silently.

The fields are described in docs/model.md section 2a.
"""

import json
from dataclasses import dataclass
from typing import Optional

REQUIRED = object()

# Every field that the arithmetic depends on -> what its absence means.
FIELDS = {
    "hidden_size": REQUIRED,
    "num_hidden_layers": REQUIRED,
    "vocab_size": REQUIRED,
    "rms_norm_eps": REQUIRED,
    "hidden_act": REQUIRED,
    "activation_situ_beta": None,
    "activation_situ_linear_beta": None,
    "attn_res_block_size": None,
    "linear_attn_config": REQUIRED,
    "num_attention_heads": REQUIRED,
    "num_key_value_heads": REQUIRED,
    "q_lora_rank": None,
    "kv_lora_rank": REQUIRED,
    "qk_nope_head_dim": REQUIRED,
    "qk_rope_head_dim": REQUIRED,
    "v_head_dim": REQUIRED,
    "mla_use_nope": REQUIRED,
    "mla_use_output_gate": None,
    "num_experts": REQUIRED,
    "num_experts_per_token": REQUIRED,
    "num_shared_experts": None,
    "moe_intermediate_size": REQUIRED,
    "routed_expert_hidden_size": None,
    "latent_moe_use_norm": None,
    "moe_router_activation_func": REQUIRED,
    "moe_renormalize": REQUIRED,
    "routed_scaling_factor": REQUIRED,
    "num_expert_group": None,
    "topk_group": None,
    "first_k_dense_replace": REQUIRED,
    "moe_layer_freq": None,
    "intermediate_size": REQUIRED,
    "tie_word_embeddings": REQUIRED,
    "num_nextn_predict_layers": REQUIRED,
    "quantization_config": None,
}
LINEAR_FIELDS = {
    "num_heads": REQUIRED,
    "head_dim": REQUIRED,
    "short_conv_kernel_size": REQUIRED,
    "kda_layers": REQUIRED,
    "full_attn_layers": REQUIRED,
    "gate_lower_bound": None,
    "use_full_rank_gate": None,
}


@dataclass
class Config:
    """The model's shape and switches, in the names used by the rest of the reference."""

    hidden: int
    layers: int
    vocab: int
    rms_eps: float
    activation: str
    situ_beta: float
    situ_linear_beta: Optional[float]
    block: Optional[int]
    # KDA
    kda_heads: int
    kda_dim: int
    taps: int
    kda_layers: frozenset  # zero-based
    gate_lower_bound: Optional[float]
    full_rank_gate: bool
    # MLA
    mla_heads: int
    q_lora: Optional[int]
    kv_lora: int
    nope: int
    rope: int
    v_head: int
    mla_gate: bool
    # feed-forward
    experts: int
    top_k: int
    shared: int
    expert_width: int
    latent: Optional[int]
    latent_norm: bool
    router: str
    renormalize: bool
    routed_scale: float
    groups: int
    top_groups: int
    first_dense: int
    moe_freq: int
    dense_width: int
    mxfp4: bool

    @property
    def kda_width(self):
        return self.kda_heads * self.kda_dim

    @property
    def mla_width(self):
        return self.mla_heads * self.v_head

    @property
    def expert_input(self):
        return self.latent or self.hidden

    def is_dense(self, layer):
        return layer < self.first_dense or layer % self.moe_freq != 0


def _pick(fields, source, where, problems):
    values = {}
    for name, absent in fields.items():
        value = source.get(name)
        if value is None and absent is REQUIRED:
            problems.append(f"{where}{name} is missing")
        values[name] = value
    return values


def _check(v, a, problems):
    """Refuses values and contradictions that have no defined meaning."""
    def need(ok, text):
        if not ok:
            problems.append(text)

    need(v["hidden_act"] in ("situ", "silu"), f"hidden_act {v['hidden_act']!r} is unknown")
    need(v["activation_situ_linear_beta"] != 0, "activation_situ_linear_beta is 0")
    need(v["num_key_value_heads"] == v["num_attention_heads"],
         "num_key_value_heads differs from num_attention_heads")
    need(v["mla_use_nope"] is True, "mla_use_nope must be true")
    need(v["moe_router_activation_func"] in ("sigmoid", "softmax"),
         f"moe_router_activation_func {v['moe_router_activation_func']!r} is unknown")
    need(v["tie_word_embeddings"] is False, "tie_word_embeddings must be false")
    need(v["num_nextn_predict_layers"] == 0, "num_nextn_predict_layers must be 0")
    listed = list(a["kda_layers"]) + list(a["full_attn_layers"])
    need(sorted(listed) == list(range(1, v["num_hidden_layers"] + 1)),
         "kda_layers and full_attn_layers must name every layer (from 1) exactly once")
    groups, top_groups = v["num_expert_group"] or 1, v["topk_group"] or 1
    need(v["num_experts"] % groups == 0, "num_expert_group does not divide num_experts")
    kept = v["num_experts"] if groups == 1 else v["num_experts"] // groups * top_groups
    need(1 <= v["num_experts_per_token"] <= kept, "num_experts_per_token exceeds the choice")
    if v["quantization_config"]:
        quantization = v["quantization_config"]
        need(quantization.get("format") == "mxfp4-pack-quantized",
             "quantization_config.format is not mxfp4-pack-quantized")
        for name, group in quantization.get("config_groups", {}).items():
            need(group["weights"]["group_size"] == 32 and group["weights"]["num_bits"] == 4,
                 f"quantization_config: {name} is not 4 bits in groups of 32")
        for name in ("routed_expert_hidden_size", "moe_intermediate_size"):
            width = v[name] or v["hidden_size"]
            need(width % 32 == 0, f"{name}: MXFP4 needs a multiple of 32")


def parse(document):
    """Makes a Config of the parsed config.json. Lists all problems in one ValueError."""
    text = document.get("text_config", document)
    problems = []
    if text is not document:
        for name in FIELDS:
            if name in document and document[name] != text.get(name):
                problems.append(f"{name} differs between the top level and text_config")
    v = _pick(FIELDS, text, "", problems)
    a = _pick(LINEAR_FIELDS, v["linear_attn_config"] or {}, "linear_attn_config.", problems)
    if not problems:
        _check(v, a, problems)
    if problems:
        raise ValueError("config.json: " + "; ".join(problems))
    return Config(
        hidden=v["hidden_size"], layers=v["num_hidden_layers"], vocab=v["vocab_size"],
        rms_eps=v["rms_norm_eps"], activation=v["hidden_act"],
        situ_beta=v["activation_situ_beta"] or 1.0,
        situ_linear_beta=v["activation_situ_linear_beta"], block=v["attn_res_block_size"],
        kda_heads=a["num_heads"], kda_dim=a["head_dim"], taps=a["short_conv_kernel_size"],
        kda_layers=frozenset(layer - 1 for layer in a["kda_layers"]),
        gate_lower_bound=a["gate_lower_bound"], full_rank_gate=bool(a["use_full_rank_gate"]),
        mla_heads=v["num_attention_heads"], q_lora=v["q_lora_rank"], kv_lora=v["kv_lora_rank"],
        nope=v["qk_nope_head_dim"], rope=v["qk_rope_head_dim"], v_head=v["v_head_dim"],
        mla_gate=bool(v["mla_use_output_gate"]), experts=v["num_experts"],
        top_k=v["num_experts_per_token"], shared=v["num_shared_experts"] or 0,
        expert_width=v["moe_intermediate_size"], latent=v["routed_expert_hidden_size"],
        latent_norm=bool(v["latent_moe_use_norm"]), router=v["moe_router_activation_func"],
        renormalize=v["moe_renormalize"], routed_scale=v["routed_scaling_factor"],
        groups=v["num_expert_group"] or 1, top_groups=v["topk_group"] or 1,
        first_dense=v["first_k_dense_replace"], moe_freq=v["moe_layer_freq"] or 1,
        dense_width=v["intermediate_size"], mxfp4=bool(v["quantization_config"]))


def load(path):
    with open(path, encoding="utf-8") as file:
        return parse(json.load(file))
