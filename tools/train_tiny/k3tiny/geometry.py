"""The shape of the model, and its spelling as K3's published config.json."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Geometry:
    """Everything about the architecture that changes the arithmetic."""

    vocab: int = 2304
    hidden: int = 192
    layers: int = 9
    full_attention: tuple = (4, 8, 9)  # one-based, as in the published config
    block: int = 3  # layers per attention-residual block
    eps: float = 1e-5
    situ_beta: float = 4.0
    situ_linear_beta: float = 25.0
    kda_heads: int = 4
    kda_dim: int = 32
    conv_taps: int = 4
    gate_lower_bound: float = -5.0
    heads: int = 4
    q_lora: int = 96
    kv_lora: int = 64
    nope: int = 32
    rope: int = 16
    v_dim: int = 32
    dense_width: int = 512
    dense_layers: int = 1
    experts: int = 32
    active: int = 6
    shared: int = 1
    expert_width: int = 64
    latent: int = 96
    routed_scaling: float = 1.0

    @property
    def kda_width(self):
        return self.kda_heads * self.kda_dim

    def is_full_attention(self, layer):
        return layer + 1 in self.full_attention

    def is_dense(self, layer):
        return layer < self.dense_layers

    def to_dict(self):
        return asdict(self)

    @staticmethod
    def from_dict(values):
        return Geometry(**{**values, "full_attention": tuple(values["full_attention"])})

    @staticmethod
    def from_config(config):
        """Reads a published config.json; fields with one allowed value are checked."""
        t = config["text_config"]
        linear = t["linear_attn_config"]
        required = {
            "hidden_act": "situ",
            "latent_moe_use_norm": True,
            "mla_use_nope": True,
            "mla_use_output_gate": True,
            "moe_layer_freq": 1,
            "moe_renormalize": True,
            "moe_router_activation_func": "sigmoid",
            "num_expert_group": 1,
            "tie_word_embeddings": False,
        }
        for name, value in required.items():
            if t[name] != value:
                raise ValueError(f"text_config.{name} is {t[name]!r}; only {value!r} is trained here")
        if not linear["use_full_rank_gate"]:
            raise ValueError("linear_attn_config.use_full_rank_gate must be true")
        return Geometry(
            vocab=t["vocab_size"],
            hidden=t["hidden_size"],
            layers=t["num_hidden_layers"],
            full_attention=tuple(linear["full_attn_layers"]),
            block=t["attn_res_block_size"],
            eps=t["rms_norm_eps"],
            situ_beta=t["activation_situ_beta"],
            situ_linear_beta=t["activation_situ_linear_beta"],
            kda_heads=linear["num_heads"],
            kda_dim=linear["head_dim"],
            conv_taps=linear["short_conv_kernel_size"],
            gate_lower_bound=linear["gate_lower_bound"],
            heads=t["num_attention_heads"],
            q_lora=t["q_lora_rank"],
            kv_lora=t["kv_lora_rank"],
            nope=t["qk_nope_head_dim"],
            rope=t["qk_rope_head_dim"],
            v_dim=t["v_head_dim"],
            dense_width=t["intermediate_size"],
            dense_layers=t["first_k_dense_replace"],
            experts=t["num_experts"],
            active=t["num_experts_per_token"],
            shared=t["num_shared_experts"],
            expert_width=t["moe_intermediate_size"],
            latent=t["routed_expert_hidden_size"],
            routed_scaling=t["routed_scaling_factor"],
        )

    def to_config(self, ids, context):
        """The published layout. `ids` maps bos, eos, pad and media to token ids."""
        kda_layers = [i + 1 for i in range(self.layers) if not self.is_full_attention(i)]
        group = {
            "format": "mxfp4-pack-quantized",
            "input_activations": None,
            "output_activations": None,
            "targets": ["Linear"],
            "weights": {
                "actorder": None,
                "block_structure": None,
                "dynamic": False,
                "group_size": 32,
                "num_bits": 4,
                "observer": "minmax",
                "observer_kwargs": {},
                "scale_dtype": "torch.uint8",
                "strategy": "group",
                "symmetric": True,
                "type": "float",
                "zp_dtype": None,
            },
        }
        text = {
            "activation_situ_beta": self.situ_beta,
            "activation_situ_linear_beta": self.situ_linear_beta,
            "architectures": ["KimiLinearForCausalLM"],
            "attn_res_block_size": self.block,
            "bos_token_id": ids["bos"],
            "dtype": "bfloat16",
            "eos_token_id": ids["eos"],
            "first_k_dense_replace": self.dense_layers,
            "hidden_act": "situ",
            "hidden_size": self.hidden,
            "initializer_range": 0.02,
            "intermediate_size": self.dense_width,
            "kv_lora_rank": self.kv_lora,
            "latent_moe_use_norm": True,
            "linear_attn_config": {
                "full_attn_layers": list(self.full_attention),
                "gate_lower_bound": self.gate_lower_bound,
                "head_dim": self.kda_dim,
                "kda_layers": kda_layers,
                "num_heads": self.kda_heads,
                "short_conv_kernel_size": self.conv_taps,
                "use_full_rank_gate": True,
            },
            "max_position_embeddings": context,
            "mla_use_nope": True,
            "mla_use_output_gate": True,
            "model_type": "kimi_linear",
            "moe_intermediate_size": self.expert_width,
            "moe_layer_freq": 1,
            "moe_renormalize": True,
            "moe_router_activation_func": "sigmoid",
            "num_attention_heads": self.heads,
            "num_expert_group": 1,
            "num_experts": self.experts,
            "num_experts_per_token": self.active,
            "num_hidden_layers": self.layers,
            "num_key_value_heads": self.heads,
            "num_nextn_predict_layers": 0,
            "num_shared_experts": self.shared,
            "pad_token_id": ids["pad"],
            "q_lora_rank": self.q_lora,
            "qk_nope_head_dim": self.nope,
            "qk_rope_head_dim": self.rope,
            "quantization_config": {
                "config_groups": {"group_0": group},
                "format": "mxfp4-pack-quantized",
                "global_compression_ratio": None,
                "ignore": [
                    "re:.*self_attn.*",
                    "re:.*shared_experts.*",
                    "re:.*mlp\\.(gate|up|gate_up|down)_proj.*",
                    "re:.*lm_head.*",
                    "re:.*vision_tower.*",
                    "re:.*mm_projector.*",
                ],
                "kv_cache_scheme": None,
                "quant_method": "compressed-tensors",
                "quantization_status": "compressed",
            },
            "rms_norm_eps": self.eps,
            "routed_expert_hidden_size": self.latent,
            "routed_scaling_factor": self.routed_scaling,
            "tie_word_embeddings": False,
            "topk_group": 1,
            "topk_method": "noaux_tc",
            "use_cache": True,
            "use_grouped_topk": True,
            "v_head_dim": self.v_dim,
            "vocab_size": self.vocab,
        }
        return {
            "architectures": ["KimiK3ForConditionalGeneration"],
            "bos_token_id": ids["bos"],
            "dtype": "bfloat16",
            "eos_token_id": ids["eos"],
            "ignore_index": -100,
            "image_placeholder": "<|kimi_image_placeholder|>",
            "media_placeholder_token_id": ids["media"],
            "model_type": "kimi_k3",
            "pad_token_id": ids["pad"],
            "text_config": text,
            "tie_word_embeddings": False,
        }
