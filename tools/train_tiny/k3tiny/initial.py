"""The weights a training run starts from."""

import math

import torch

_HALVED = ("o_proj", "down_proj", "block_sparse_moe.up")  # what writes into the residual sum
_LONGEST, _SHORTEST = 400.0, 2.0  # positions after which a KDA channel has forgotten


def _decay_bias(g):
    """dt_bias that gives the channels of each head time constants evenly spread on a log scale."""
    times = torch.exp(torch.linspace(math.log(_SHORTEST), math.log(_LONGEST), g.kda_dim))
    rate = 1.0 / (-g.gate_lower_bound * times)  # sigmoid(dt_bias), with A_log 0
    return torch.log(rate / (1.0 - rate)).repeat(g.kda_heads)


@torch.no_grad()
def initialise(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        own = name.rsplit(".", 1)[-1]
        if own.endswith("norm"):
            p.fill_(1.0)
        elif own in ("A_log",) or own.endswith("res_proj"):
            p.zero_()
        elif own == "dt_bias":
            p.copy_(_decay_bias(model.g))
        elif own.endswith("conv1d"):
            p.uniform_(-0.5, 0.5, generator=generator)
        else:
            p.normal_(0.0, _deviation(name, own, p), generator=generator)


def _deviation(name, own, p):
    if own == "embed_tokens":
        return 0.5
    if own in ("lm_head", "gate", "b_proj"):
        return 0.02
    scale = p.shape[-1] ** -0.5
    if own == "f_b_proj":
        return 0.1 * scale
    return 0.5 * scale if name.endswith(_HALVED) else scale
