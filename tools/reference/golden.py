"""Makes the golden cases of tests/data/golden: small checkpoints with their exact logits.

    golden.py OUT                 writes every case and mistakes.json
    golden.py OUT --case NAME     writes one case (repeatable)
    golden.py OUT --mistakes      writes mistakes.json alone, from the cases in OUT
    golden.py --search NAME       looks for a seed that keeps every decision clear

A case is accepted only if float32 arithmetic cannot change a decision: the router margins and
the gaps between the two best logits must stay above LIMITS, and a float32 run must choose the
same experts and tokens.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass, field, replace

import numpy as np

import check
import make_checkpoint
from checkpoint import Checkpoint
from make_checkpoint import Options
from mistakes import MISTAKES
from model import Model, Trace, greedy

PROMPT, GREEDY = 19, 16
LIMITS = {"router_margin": 2e-4, "gap": 2e-3, "f32_logits": 2e-6}


@dataclass
class Spec:
    """How a case is made and what it is for."""

    geometry: str
    seed: int
    what: str
    changes: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)


LINEAR = {"nested": False, "prefix": False, "islands": "BF16", "a_log": "4d"}


def layers(kda, mla):
    """The config changes for these one-based layers."""
    return {"num_hidden_layers": len(kda) + len(mla), "linear_attn_config.kda_layers": kda,
            "linear_attn_config.full_attn_layers": mla}


CASES = {
    "k3": Spec("k3", 1, "Kimi K3 in small: attention residual blocks of 3 over 7 layers, the last "
               "two MLA; latent MoE with norm, MXFP4, padded A_log, vision tensors, 3 shards",
               {}, {"shards": 3, "vision": True}),
    "kimi-linear": Spec("kimi-linear", 1, "Kimi-Linear in small: flat config, bf16 throughout, "
                        "no attention residuals, no latent, low-rank gate, softplus decay, SiLU, "
                        "groups, A_log [1,1,heads,1], fewer MLA heads than KDA heads",
                        {}, {**LINEAR, "shards": 2}),
    "odd-shapes": Spec(
        "k3", 1, "odd sizes: hidden 45, 3 KDA heads of 7, 3 taps, 2 MLA heads (nope 5, rope 3, "
        "value 24), vocabulary 101, 7 experts; rms_norm_eps 1e-3, gate_lower_bound -2.5, SiTU "
        "betas 1.5 and 2; heads entries in A_log; blocks of 2 layers",
        {**layers([1, 3, 4], [2, 5]), "hidden_size": 45, "vocab_size": 101,
         "rms_norm_eps": 1e-3, "intermediate_size": 51, "activation_situ_beta": 1.5,
         "activation_situ_linear_beta": 2.0, "attn_res_block_size": 2,
         "linear_attn_config.num_heads": 3, "linear_attn_config.head_dim": 7,
         "linear_attn_config.short_conv_kernel_size": 3,
         "linear_attn_config.gate_lower_bound": -2.5, "q_lora_rank": 11, "kv_lora_rank": 13,
         "qk_nope_head_dim": 5, "qk_rope_head_dim": 3, "v_head_dim": 24, "num_experts": 7,
         "num_experts_per_token": 2, "num_shared_experts": 1},
        {"a_log": "heads"}),
    "grouped-latent": Spec(
        "k3", 0, "grouped routing with a latent MoE without norm, without attention residuals; "
        "negative biases, so that a masked group must count as minus infinity; scaling 1.7",
        {**layers([1, 2, 4], [3, 5]), "attn_res_block_size": None, "latent_moe_use_norm": None,
         "num_experts": 12, "num_expert_group": 4, "topk_group": 2, "routed_scaling_factor": 1.7,
         "linear_attn_config.head_dim": 9, "linear_attn_config.num_heads": 3},
        {"a_log": "heads", "shift": {"e_score_correction_bias": -1.3}}),
    "softmax-router": Spec(
        "k3", 9, "softmax over all experts without renormalisation, scaling 2.5; latent MoE with "
        "bf16 experts and no norm; softplus decay with a full-rank gate and padded A_log; no MLA "
        "gate",
        {**layers([1, 3, 5], [2, 4]), "moe_router_activation_func": "softmax",
         "moe_renormalize": False, "routed_scaling_factor": 2.5, "quantization_config": None,
         "latent_moe_use_norm": None,
         "linear_attn_config.gate_lower_bound": None, "mla_use_output_gate": None,
         "moe_intermediate_size": 20, "routed_expert_hidden_size": 28, "num_experts": 10,
         "activation_situ_linear_beta": 3.0},
        {"shards": 2}),
    "top1-sparse-layers": Spec(
        "k3", 14, "top-k 1 (not renormalised), no latent norm, moe_layer_freq 2 with "
        "first_k_dense_replace 2, blocks of 3, low-rank gate with lower bound -4, no q_lora",
        {**layers([1, 2, 4, 5, 7], [3, 6]), "num_experts_per_token": 1, "moe_layer_freq": 2,
         "first_k_dense_replace": 2, "num_experts": 9, "routed_scaling_factor": 1.3,
         "linear_attn_config.use_full_rank_gate": None, "q_lora_rank": None,
         "latent_moe_use_norm": None,
         "linear_attn_config.gate_lower_bound": -4.0}, {}),
    "silu-mxfp4": Spec(
        "k3", 0, "SiLU with MXFP4 experts that read the hidden state itself, all layers KDA with "
        "head dim 24, a block longer than the model",
        {**layers([1, 2, 3, 4], []), "hidden_size": 64, "hidden_act": "silu",
         "activation_situ_beta": None, "activation_situ_linear_beta": None,
         "routed_expert_hidden_size": None, "latent_moe_use_norm": None,
         "attn_res_block_size": 16, "linear_attn_config.head_dim": 24, "num_experts": 6,
         "num_experts_per_token": 2, "num_shared_experts": 1}, {"shards": 2}),
    "all-mla": Spec(
        "k3", 0, "all layers MLA, a block at every layer, layer 0 with experts; SiTU with beta 0 "
        "(which means 1) and no linear beta",
        {**layers([], [1, 2, 3, 4]), "attn_res_block_size": 1, "first_k_dense_replace": 0,
         "activation_situ_beta": 0, "activation_situ_linear_beta": None, "num_experts": 10,
         "num_attention_heads": 3, "num_key_value_heads": 3}, {}),
    "extreme-scales": Spec(
        "k3", 0, "scale bytes 0 and 1 undone by 253 and 254, groups of +0 and -0 under the "
        "largest scale, SiTU without a linear beta",
        {**layers([1, 3], [2]), "activation_situ_linear_beta": None, "num_experts": 6,
         "moe_intermediate_size": 64, "routed_expert_hidden_size": 96,
         "num_experts_per_token": 2, "num_shared_experts": 1},
        {"extreme_scales": True, "scale": {r"experts\.\d+\.w1": 1.5}}),
    "unaligned": Spec(
        "k3", 0, "flat config with K3's names, one model.safetensors without an index, tensors in "
        "random order at odd offsets, BF16 small vectors",
        {**layers([1, 3], [2, 4]), "attn_res_block_size": 2, "num_experts": 6},
        {"nested": False, "index": False, "shuffle": True, "unaligned": True, "islands": "BF16"}),
    "expert-ties": Spec(
        "k3", 0, "experts with equal router rows and biases, so that exact ties are decided by "
        "the lower index",
        {**layers([1, 3], [2, 4]), "num_experts": 11, "attn_res_block_size": 2},
        {"ties": [(1, 7), (2, 5, 9), (0, 10), (3, 6)]}),
    "many-experts": Spec(
        "kimi-linear", 0, "300 narrow experts, so that winners lie above index 255; no shared "
        "experts; one file with an index",
        {**layers([1, 3], [2]), "hidden_size": 20, "num_experts": 300, "vocab_size": 97,
         "num_experts_per_token": 6, "moe_intermediate_size": 5, "num_shared_experts": None,
         "num_expert_group": None, "topk_group": None, "moe_layer_freq": None,
         "first_k_dense_replace": 2, "intermediate_size": 40}, LINEAR),
    "small-norms": Spec(
        "k3", 6, "q, k, v, the latents and the experts' sum so small that every epsilon shows: "
        "that of q and k, of o_norm, of the latent norms and of the norm after the experts",
        {**layers([1, 2, 4], [3]), "attn_res_block_size": 2},
        {"scale": {r"[qk]_conv1d": 5e-4, r"v_conv1d": 0.02, r"kv_a_proj_with_mqa": 3e-3,
                   r"q_a_proj": 3e-3, r"experts\.\d+\.w2": 2.0**-9}}),
    "far-numbers": Spec(
        "kimi-linear", 1, "softplus far above its threshold (exp would overflow in f32) and "
        "router scores near 1e-20, where the 1e-20 under their sum matters",
        {**layers([1, 2, 4], [3]), "num_expert_group": 1, "topk_group": 1, "num_experts": 8},
        {**LINEAR, "shift": {"embed_tokens": 1.5, r"moe\.gate\.weight": -1.6,
                             "dt_bias": 115.0, "A_log": -4.5},
         "scale": {"e_score_correction_bias": 0.0, "dt_bias": 15.0}}),
}


def make_checkpoint_of(name, folder, seed):
    spec = CASES[name]
    make_checkpoint.make(folder, make_checkpoint.geometry(spec.geometry, spec.changes),
                         replace(Options(seed=seed), **spec.options))


def prompt_of(config, seed):
    rng = np.random.default_rng(seed + 1000)
    return [int(token) for token in rng.integers(0, config.vocab, PROMPT)]


class Run:
    """Everything that a case's files are made of, with the measures that judge the case."""

    def __init__(self, folder, seed):
        checkpoint = Checkpoint(folder)
        self.prompt = prompt_of(checkpoint.config, seed)
        self.trace = Trace()
        self.logits, self.ids, self.rows, self.state, margins = greedy(
            Model(checkpoint), self.prompt, GREEDY, self.trace)
        self.prompt_margin = float(min(
            [m.min() for m in self.trace.router_margins.values()] or [np.inf]))
        self.margin = float(margins.min())
        best = np.sort(self.rows, axis=1)
        self.gaps = best[:, -1] - best[:, -2]
        trace = Trace()
        with np.errstate(over="ignore"):
            low, ids, rows, _, _ = greedy(Model(checkpoint, np.float32), self.prompt, GREEDY,
                                          trace)
        self.f32_error = max(check.relative_l2(low, self.logits),
                             check.relative_l2(rows, self.rows))
        self.f32_same = ids == self.ids and all(
            np.array_equal(trace.router_ids[layer], self.trace.router_ids[layer])
            for layer in trace.router_ids)

    def faults(self):
        spread = float(self.rows.std())
        checks = {
            f"router margin {self.margin:.2e}": self.margin >= LIMITS["router_margin"],
            f"gap {self.gaps.min() / spread:.2e}": self.gaps.min() >= LIMITS["gap"] * spread,
            f"f32 error {self.f32_error:.2e}": self.f32_error <= LIMITS["f32_logits"],
            "f32 decisions": self.f32_same,
            f"spread {spread:.2f}": 0.7 <= spread <= 4,
            f"{len(set(self.ids))} distinct tokens": len(set(self.ids)) >= 6,
        }
        return [text for text, ok in checks.items() if not ok]


def raw_files(run):
    """{file: (array, meaning)} of a case."""
    files = {
        "prompt_logits.f32": (run.logits, "logits at every prompt position, computed in float64 "
                              "and rounded to float32 at the end"),
        "greedy_logits.f32": (run.rows, "row i: the logits whose argmax is greedy_ids[i]"),
        "trace_last.f32": (np.array(run.trace.layers)[:, :, -1], "last prompt position, [layer][5]"
                           "[hidden]: output of input_layernorm; of self_attn (after o_proj); of "
                           "post_attention_layernorm; of the MLP or MoE block; the layer output"),
        "final_last.f32": (run.trace.final[:, -1],
                           "last prompt position, [2][hidden]: input and output of model.norm"),
    }
    if run.trace.router_ids:
        ids = np.array([np.sort(ids, axis=1) for ids in run.trace.router_ids.values()], np.int32)
        files["router_ids.i32"] = (ids, "chosen experts, ascending ids, [moe layer in order]"
                                   "[prompt position][k]; moe layers: "
                                   + str(list(run.trace.router_ids)))
    if run.state.delta:
        layer = max(run.state.delta)
        files[f"kda_state_layer{layer}.f32"] = (
            run.state.delta[layer], f"recurrent state of layer {layer} after the prompt, "
            "[head][key dim][value dim]")
        files[f"kda_conv_layer{layer}.f32"] = (
            np.array([run.state.conv[layer, which] for which in "qkv"]),
            f"conv caches of layer {layer} after the prompt, [q, k, v][channel][taps]: the last "
            "inputs of each convolution, oldest first; the first of them no longer matters")
    return files


def describe(name, run, files):
    spec = CASES[name]
    trace = run.trace
    rows = {layer: (ids[-1], trace.router_weights[layer][-1], trace.router_margins[layer][-1])
            for layer, ids in trace.router_ids.items()}
    return {
        "case": name,
        "description": spec.what,
        "checkpoint": "checkpoint",
        "made_by": {"generator": "tools/reference/golden.py", "seed": spec.seed},
        "reference": "tools/reference/model.py in float64",
        "prompt_ids": run.prompt,
        "logit_positions": list(range(len(run.prompt))),
        "greedy_ids": run.ids,
        "greedy_ignores_eos": True,
        "greedy_gap_top1_top2": [float(gap) for gap in run.gaps],
        "smallest_gap": float(run.gaps.min()),
        "smallest_router_margin": {"prompt": run.prompt_margin, "prompt_and_greedy": run.margin},
        "router_last_prompt_position": {
            str(layer): {"experts": [int(e) for e in ids], "weights": [float(w) for w in weights],
                         "margin": float(margin)}
            for layer, (ids, weights, margin) in rows.items()},
        "differences": {"f32": {"rel_rms_vs_f64": run.f32_error}},
        "files": {file: {"dtype": file[-3:], "shape": list(array.shape), "what": what}
                  for file, (array, what) in files.items()},
    }


def write_case(name, out):
    folder = os.path.join(out, name)
    shutil.rmtree(folder, ignore_errors=True)
    make_checkpoint_of(name, os.path.join(folder, "checkpoint"), CASES[name].seed)
    run = Run(os.path.join(folder, "checkpoint"), CASES[name].seed)
    if run.faults():
        raise SystemExit(f"{name}: {', '.join(run.faults())}; look for another seed")
    files = raw_files(run)
    for file, (array, _) in files.items():
        array.astype({"f32": "<f4", "i32": "<i4"}[file[-3:]]).tofile(os.path.join(folder, file))
    make_checkpoint.write_json(os.path.join(folder, "golden.json"), describe(name, run, files))
    size = sum(os.path.getsize(os.path.join(root, file))
               for root, _, found in os.walk(folder) for file in found)
    print(f"{name:20} {size / 1000:6.0f} KB  router {run.margin:.1e}  gap {run.gaps.min():.1e}  "
          f"f32 {run.f32_error:.1e}  spread {run.rows.std():.2f}")


def mistaken_ids(case, mistake):
    """(greedy ids of the mistaken model, relative L2 of its prompt logits)."""
    with np.errstate(all="ignore"):
        model = MISTAKES[mistake](case.checkpoint())
        logits, ids, _, _, _ = greedy(model, case.prompt, len(case.greedy_ids))
    return ids, check.relative_l2(logits, case.read("prompt_logits.f32"))


def write_mistakes(out):
    """For every mistake, the cases whose greedy tokens it changes, with those tokens."""
    result = {}
    cases = [check.Case(os.path.join(out, name)) for name in CASES]
    for mistake in MISTAKES:
        result[mistake] = {}
        moved = {}
        for case in cases:
            ids, moved[case.name] = mistaken_ids(case, mistake)
            if ids != case.greedy_ids and np.isfinite(moved[case.name]):
                result[mistake][case.name] = ids
        most = max(moved, key=moved.get)
        print(f"{mistake:28} tokens differ in {len(result[mistake]):2}; most moved {most} "
              f"{moved[most]:.1e}; {list(result[mistake])[:4]}", flush=True)
    make_checkpoint.write_json(os.path.join(out, "mistakes.json"), result)


def search(name, tries):
    for seed in range(CASES[name].seed, CASES[name].seed + tries):
        with tempfile.TemporaryDirectory() as folder:
            make_checkpoint_of(name, folder, seed)
            faults = Run(folder, seed).faults()
        print(f"{name}: seed {seed}: {', '.join(faults) or 'good'}", flush=True)
        if not faults:
            return seed
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", nargs="?")
    parser.add_argument("--case", action="append", choices=sorted(CASES))
    parser.add_argument("--mistakes", action="store_true")
    parser.add_argument("--search", action="append", choices=sorted(CASES))
    parser.add_argument("--tries", type=int, default=20)
    arguments = parser.parse_args()
    if arguments.search:
        return 0 if all(search(name, arguments.tries) is not None
                        for name in arguments.search) else 1
    if not arguments.out:
        parser.error("OUT is needed")
    if not arguments.mistakes:
        for name in arguments.case or CASES:
            write_case(name, arguments.out)
    if not arguments.case:
        write_mistakes(arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
