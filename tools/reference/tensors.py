"""Lists every tensor that a config demands: name, shape and kind (docs/model.md section 2)."""

from typing import NamedTuple, Tuple


class Spec(NamedTuple):
    name: str  # without the `language_model.` prefix
    shape: Tuple[int, ...]
    kind: str  # "matrix", "vector", "island" (F32 in K3), "a_log", "packed" or "scale"


def _attention_residual(config, prefix):
    return [Spec(prefix + "_res_norm.weight", (config.hidden,), "vector"),
            Spec(prefix + "_res_proj.weight", (1, config.hidden), "matrix")]


def _kda(config, at):
    h, p, d = config.hidden, config.kda_width, config.kda_dim
    out = [Spec(f"{at}{x}_proj.weight", (p, h), "matrix") for x in "qkv"]
    out += [Spec(f"{at}{x}_conv1d.weight", (p, 1, config.taps), "island") for x in "qkv"]
    if config.full_rank_gate:
        out.append(Spec(at + "g_proj.weight", (p, h), "matrix"))
    else:
        out += [Spec(at + "g_a_proj.weight", (d, h), "matrix"),
                Spec(at + "g_b_proj.weight", (p, d), "matrix")]
    return out + [Spec(at + "f_a_proj.weight", (d, h), "matrix"),
                  Spec(at + "f_b_proj.weight", (p, d), "matrix"),
                  Spec(at + "b_proj.weight", (config.kda_heads, h), "matrix"),
                  Spec(at + "A_log", (config.kda_heads,), "a_log"),
                  Spec(at + "dt_bias", (p,), "island"),
                  Spec(at + "o_norm.weight", (d,), "island"),
                  Spec(at + "o_proj.weight", (h, p), "matrix")]


def _mla(config, at):
    h, heads = config.hidden, config.mla_heads
    q_rows = heads * (config.nope + config.rope)
    if config.q_lora:
        out = [Spec(at + "q_a_proj.weight", (config.q_lora, h), "matrix"),
               Spec(at + "q_a_layernorm.weight", (config.q_lora,), "vector"),
               Spec(at + "q_b_proj.weight", (q_rows, config.q_lora), "matrix")]
    else:
        out = [Spec(at + "q_proj.weight", (q_rows, h), "matrix")]
    out += [Spec(at + "kv_a_proj_with_mqa.weight", (config.kv_lora + config.rope, h), "matrix"),
            Spec(at + "kv_a_layernorm.weight", (config.kv_lora,), "vector"),
            Spec(at + "kv_b_proj.weight",
                 (heads * (config.nope + config.v_head), config.kv_lora), "matrix")]
    if config.mla_gate:
        out.append(Spec(at + "g_proj.weight", (config.mla_width, h), "matrix"))
    return out + [Spec(at + "o_proj.weight", (h, config.mla_width), "matrix")]


def _mlp(config, at, width):
    h = config.hidden
    return [Spec(at + "gate_proj.weight", (width, h), "matrix"),
            Spec(at + "up_proj.weight", (width, h), "matrix"),
            Spec(at + "down_proj.weight", (h, width), "matrix")]


def _moe(config, at):
    h, z, width = config.hidden, config.expert_input, config.expert_width
    out = [Spec(at + "gate.weight", (config.experts, h), "matrix"),
           Spec(at + "gate.e_score_correction_bias", (config.experts,), "island")]
    if config.latent:
        out.append(Spec(at + "routed_expert_down_proj.weight", (z, h), "matrix"))
        if config.latent_norm:
            out.append(Spec(at + "routed_expert_norm.weight", (z,), "vector"))
        out.append(Spec(at + "routed_expert_up_proj.weight", (h, z), "matrix"))
    if config.shared:
        out += _mlp(config, at + "shared_experts.", config.shared * width)
    for expert in range(config.experts):
        for part, rows, columns in (("w1", width, z), ("w3", width, z), ("w2", z, width)):
            name = f"{at}experts.{expert}.{part}.weight"
            if config.mxfp4:
                out += [Spec(name + "_packed", (rows, columns // 2), "packed"),
                        Spec(name + "_scale", (rows, columns // 32), "scale")]
            else:
                out.append(Spec(name, (rows, columns), "matrix"))
    return out


def layer_table(config, layer):
    at = f"model.layers.{layer}."
    out = [Spec(at + "input_layernorm.weight", (config.hidden,), "vector"),
           Spec(at + "post_attention_layernorm.weight", (config.hidden,), "vector")]
    if config.block:
        out += _attention_residual(config, at + "self_attention")
        out += _attention_residual(config, at + "mlp")
    attention = _kda if layer in config.kda_layers else _mla
    out += attention(config, at + "self_attn.")
    if config.is_dense(layer):
        return out + _mlp(config, at + "mlp.", config.dense_width)
    return out + _moe(config, at + "block_sparse_moe.")


def table(config):
    """All tensors of the text model, layer by layer, the ends last."""
    out = []
    for layer in range(config.layers):
        out += layer_table(config, layer)
    out += [Spec("model.embed_tokens.weight", (config.vocab, config.hidden), "matrix"),
            Spec("model.norm.weight", (config.hidden,), "vector"),
            Spec("lm_head.weight", (config.vocab, config.hidden), "matrix")]
    if config.block:
        out += _attention_residual(config, "model.output_attn")
    return out
