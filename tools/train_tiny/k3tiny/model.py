"""K3's forward pass, differentiable: docs/model.md section 3, in float32 except for the matrix products.

Products take and give `product` (bfloat16 to train, float32 to compare with an engine);
norms, softmax, router, delta rule and residual sums are float32 always.
"""

import functools
import math

import torch
import torch.nn.functional as F
from torch import nn

from . import mxfp4
from .kernels import conv_silu, delta_rule, situ_bf16

LATENT_EPS = 1e-6


class Settings:
    """How to compute, apart from the weights. Shared by all parts of a model."""

    def __init__(self):
        self.product = torch.float32
        self.experts_rounded = False  # routed experts as MXFP4, straight through
        self.experts_off = False
        self.fused = False  # compile the elementwise parts

    def call(self, function, *arguments):
        return (_compiled(function) if self.fused else function)(*arguments)


@functools.lru_cache(maxsize=None)
def _compiled(function):
    return torch.compile(function, dynamic=False)


def rms(x, weight, eps):
    return weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


def attention_residual(sources, proj, norm, eps):
    """The softmax mixture of the block vectors and the running sum."""
    direction = proj[0] * norm
    scores = []
    for v in sources:
        scale = torch.rsqrt(v.square().mean(-1, keepdim=True) + eps)
        scores.append((v * direction).sum(-1, keepdim=True) * scale)
    top = scores[0]
    for s in scores[1:]:
        top = torch.maximum(top, s)
    weights = [torch.exp(s - top) for s in scores]
    total = sum(weights)
    return sum(w / total * v for w, v in zip(weights, sources))


def mixed_norm(sources, proj, norm, weight, eps, product):
    """What a part of a layer reads: the mixture, normalised."""
    return rms(attention_residual(sources, proj, norm, eps), weight, eps).to(product)


def plain_norm(x, weight, eps, product):
    return rms(x, weight, eps).to(product)


def situ(gate_up, beta, linear_beta):
    if gate_up.dtype == torch.bfloat16 and beta == 4.0:
        return situ_bf16(gate_up, linear_beta)
    gate, up = gate_up.float().chunk(2, -1)
    bounded = beta * torch.tanh(gate / beta) * torch.sigmoid(gate)
    return (bounded * linear_beta * torch.tanh(up / linear_beta)).to(gate_up.dtype)


def kda_inputs(qkv, f, b, dt_bias, a_log, lower_bound, heads):
    """Normalised q and k, v, decay and beta, each split into heads."""
    q, k, v = (t.unflatten(-1, (heads, -1)) for t in qkv.chunk(3, -1))
    q = q * torch.rsqrt(q.square().sum(-1, keepdim=True) + 1e-6) * q.shape[-1] ** -0.5
    k = k * torch.rsqrt(k.square().sum(-1, keepdim=True) + 1e-6)
    g = (f.float() + dt_bias).unflatten(-1, (heads, -1))
    decay = torch.exp(lower_bound * torch.sigmoid(torch.exp(a_log)[:, None] * g))
    return q, k, v.contiguous(), decay, torch.sigmoid(b.float())


def gated_norm(o, weight, gate, eps):
    """Norm of each head, then the output gate."""
    return (rms(o, weight, eps).flatten(-2) * torch.sigmoid(gate.float())).to(gate.dtype)


def gated(o, gate):
    return (o.float() * torch.sigmoid(gate.float())).to(gate.dtype)


def causal_softmax(scores, scale, mask):
    return torch.softmax(scores.float() * scale + mask, -1).to(scores.dtype)


def weigh(y, weights, norm, eps):
    """Sum of the chosen experts' results, normalised; y [rows, active, latent]."""
    return rms((y.float() * weights[..., None]).sum(1), norm, eps).to(y.dtype)


def parameter(*shape):
    return nn.Parameter(torch.empty(*shape))


class Part(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.settings = settings

    def project(self, x, *weights):
        """x times the transposed weights side by side, all in the product's precision."""
        weight = weights[0] if len(weights) == 1 else torch.cat(weights)
        return F.linear(x.to(self.settings.product), weight.to(self.settings.product))


class Kda(Part):
    def __init__(self, g, settings):
        super().__init__(settings)
        width, self.g = g.kda_width, g
        for name in ("q_proj", "k_proj", "v_proj", "g_proj"):
            setattr(self, name, parameter(width, g.hidden))
        self.f_a_proj, self.f_b_proj = parameter(g.kda_dim, g.hidden), parameter(width, g.kda_dim)
        self.b_proj = parameter(g.kda_heads, g.hidden)
        for name in ("q_conv1d", "k_conv1d", "v_conv1d"):
            setattr(self, name, parameter(width, g.conv_taps))
        self.A_log, self.dt_bias = parameter(g.kda_heads), parameter(width)
        self.o_norm, self.o_proj = parameter(g.kda_dim), parameter(g.hidden, width)

    def forward(self, x):
        g, width = self.g, self.g.kda_width
        merged = self.project(x, self.q_proj, self.k_proj, self.v_proj, self.g_proj, self.f_a_proj, self.b_proj)
        qkv, gate, f_a, b = merged.split((3 * width, width, g.kda_dim, g.kda_heads), -1)
        taps = torch.cat((self.q_conv1d, self.k_conv1d, self.v_conv1d))
        qkv = conv_silu(qkv.float(), taps)
        f = self.project(f_a, self.f_b_proj)
        call = self.settings.call
        inputs = call(kda_inputs, qkv, f, b, self.dt_bias, self.A_log, g.gate_lower_bound, g.kda_heads)
        return self.project(call(gated_norm, delta_rule(*inputs), self.o_norm, gate, g.eps), self.o_proj)


class Mla(Part):
    def __init__(self, g, settings):
        super().__init__(settings)
        self.g = g
        self.q_a_proj, self.q_a_layernorm = parameter(g.q_lora, g.hidden), parameter(g.q_lora)
        self.q_b_proj = parameter(g.heads * (g.nope + g.rope), g.q_lora)
        self.kv_a_proj_with_mqa = parameter(g.kv_lora + g.rope, g.hidden)
        self.kv_a_layernorm = parameter(g.kv_lora)
        self.kv_b_proj = parameter(g.heads * (g.nope + g.v_dim), g.kv_lora)
        self.g_proj = parameter(g.heads * g.v_dim, g.hidden)
        self.o_proj = parameter(g.hidden, g.heads * g.v_dim)

    def forward(self, x):
        g, call, product = self.g, self.settings.call, self.settings.product
        merged = self.project(x, self.q_a_proj, self.kv_a_proj_with_mqa, self.g_proj)
        q_a, latent, k_rope, gate = merged.split((g.q_lora, g.kv_lora, g.rope, g.heads * g.v_dim), -1)
        q = self.project(call(plain_norm, q_a.float(), self.q_a_layernorm, LATENT_EPS, product), self.q_b_proj)
        kv = self.project(call(plain_norm, latent.float(), self.kv_a_layernorm, LATENT_EPS, product), self.kv_b_proj)
        q = q.unflatten(-1, (g.heads, -1)).transpose(1, 2)
        k_nope, v = kv.unflatten(-1, (g.heads, -1)).transpose(1, 2).split((g.nope, g.v_dim), -1)
        k = torch.cat((k_nope, k_rope[:, None].expand(-1, g.heads, -1, -1)), -1)
        length = x.shape[1]
        mask = torch.full((length, length), -math.inf).triu(1)
        p = call(causal_softmax, q @ k.transpose(-1, -2), (g.nope + g.rope) ** -0.5, mask)
        o = (p @ v).transpose(1, 2).flatten(-2)
        return self.project(call(gated, o, gate), self.o_proj)


class Mlp(Part):
    def __init__(self, g, width, settings):
        super().__init__(settings)
        self.g = g
        self.gate_proj, self.up_proj = parameter(width, g.hidden), parameter(width, g.hidden)
        self.down_proj = parameter(g.hidden, width)

    def forward(self, x):
        hidden = self.project(x, self.gate_proj, self.up_proj)
        return self.project(situ(hidden, self.g.situ_beta, self.g.situ_linear_beta), self.down_proj)


class _Gather(torch.autograd.Function):
    """Rows of x by `source` (the row after the last is zero). `back` [rows of x, n] lists, for every
    row of x, the output rows that it went to."""

    @staticmethod
    def forward(ctx, x, source, back):
        ctx.save_for_backward(back)
        return torch.cat((x, x.new_zeros(1, x.shape[1]))).index_select(0, source)

    @staticmethod
    def backward(ctx, dy):
        (back,) = ctx.saved_tensors
        padded = torch.cat((dy, dy.new_zeros(1, dy.shape[1])))
        rows = padded.index_select(0, back.flatten()).view(*back.shape, -1)
        return (rows[:, 0] if back.shape[1] == 1 else rows.sum(1)), None, None


class LatentMoe(Part):
    def __init__(self, g, settings):
        super().__init__(settings)
        self.g = g
        self.gate = parameter(g.experts, g.hidden)
        self.register_buffer("bias", torch.zeros(g.experts))  # e_score_correction_bias
        self.register_buffer("load", torch.zeros(g.experts))  # tokens per expert in the last pass
        self.down, self.norm = parameter(g.latent, g.hidden), parameter(g.latent)
        self.up = parameter(g.hidden, g.latent)
        self.w1 = parameter(g.experts, g.expert_width, g.latent)
        self.w3 = parameter(g.experts, g.expert_width, g.latent)
        self.w2 = parameter(g.experts, g.latent, g.expert_width)
        self.shared = Mlp(g, g.shared * g.expert_width, settings)

    def route(self, x):
        """Chosen experts and their weights, [rows, active]."""
        scores = torch.sigmoid(F.linear(x.float(), self.gate))
        chosen = torch.topk(scores.detach() + self.bias, self.g.active, -1).indices
        weights = scores.gather(-1, chosen)
        return chosen, weights / (weights.sum(-1, keepdim=True) + 1e-20) * self.g.routed_scaling

    def experts(self, z, chosen):
        """Each row through its experts: [rows, active, latent]. Every expert gets a slab of equal
        height, a multiple of 64, so that few shapes of product occur."""
        rows, active, experts = z.shape[0], self.g.active, self.g.experts
        flat = chosen.flatten()
        counts = torch.bincount(flat, minlength=experts)
        self.load.copy_(counts)
        height = -(-int(counts.max()) // 64) * 64
        order = torch.argsort(flat, stable=True)
        first = torch.cumsum(counts, 0) - counts
        slot = torch.empty_like(flat)
        slot[order] = flat[order] * height + torch.arange(flat.numel()) - first[flat[order]]
        row_of_slot = torch.full((experts * height,), rows)
        row_of_slot[slot] = torch.arange(rows).repeat_interleave(active)
        pair_of_slot = torch.full((experts * height, 1), rows * active)
        pair_of_slot[slot, 0] = torch.arange(rows * active)
        slabs = _Gather.apply(z, row_of_slot, slot.view(rows, active)).view(experts, height, -1)
        w13, w2 = torch.cat((self.w1, self.w3), 1), self.w2
        if self.settings.experts_rounded:
            w13, w2 = mxfp4.straight_through(w13), mxfp4.straight_through(w2)
        hidden = torch.bmm(slabs, w13.to(z.dtype).transpose(1, 2))
        hidden = situ(hidden, self.g.situ_beta, self.g.situ_linear_beta)
        result = torch.bmm(hidden, w2.to(z.dtype).transpose(1, 2)).flatten(0, 1)
        return _Gather.apply(result, slot, pair_of_slot).view(rows, active, -1)

    def forward(self, x):
        shape, x = x.shape, x.flatten(0, 1)
        out = self.shared(x)
        if not self.settings.experts_off:
            chosen, weights = self.route(x)
            y = self.experts(self.project(x, self.down), chosen)
            out = out + self.project(self.settings.call(weigh, y, weights, self.norm, self.g.eps), self.up)
        return out.view(shape)


class Layer(Part):
    def __init__(self, g, index, settings):
        super().__init__(settings)
        self.g = g
        self.input_layernorm, self.post_attention_layernorm = parameter(g.hidden), parameter(g.hidden)
        self.self_attention_res_norm, self.self_attention_res_proj = parameter(g.hidden), parameter(1, g.hidden)
        self.mlp_res_norm, self.mlp_res_proj = parameter(g.hidden), parameter(1, g.hidden)
        self.self_attn = Mla(g, settings) if g.is_full_attention(index) else Kda(g, settings)
        if g.is_dense(index):
            self.mlp = Mlp(g, g.dense_width, settings)
        else:
            self.block_sparse_moe = LatentMoe(g, settings)
        self.starts_block = index % g.block == 0

    def forward(self, p, blocks):
        """The new running sum; appends to blocks where a block starts."""
        g, call, product = self.g, self.settings.call, self.settings.product
        if blocks:
            res = self.self_attention_res_proj, self.self_attention_res_norm
            x = call(mixed_norm, [*blocks, p], *res, self.input_layernorm, g.eps, product)
        else:
            x = call(plain_norm, p, self.input_layernorm, g.eps, product)
        if self.starts_block:
            blocks.append(p)
            p = self.self_attn(x).float()
        else:
            p = p + self.self_attn(x)
        res = self.mlp_res_proj, self.mlp_res_norm
        x = call(mixed_norm, [*blocks, p], *res, self.post_attention_layernorm, g.eps, product)
        ffn = self.mlp if hasattr(self, "mlp") else self.block_sparse_moe
        return p + ffn(x)


class Model(Part):
    def __init__(self, g):
        super().__init__(Settings())
        self.g = g
        self.embed_tokens, self.lm_head = parameter(g.vocab, g.hidden), parameter(g.vocab, g.hidden)
        self.norm = parameter(g.hidden)
        self.output_attn_res_norm, self.output_attn_res_proj = parameter(g.hidden), parameter(1, g.hidden)
        self.layers = nn.ModuleList(Layer(g, i, self.settings) for i in range(g.layers))

    def hidden(self, ids):
        """The final normalised vectors of ids [batch, length], every sequence from an empty state."""
        p, blocks = F.embedding(ids, self.embed_tokens), []
        for layer in self.layers:
            p = layer(p, blocks)
        res = self.output_attn_res_proj, self.output_attn_res_norm
        return self.settings.call(mixed_norm, [*blocks, p], *res, self.norm, self.g.eps, self.settings.product)

    def forward(self, ids):
        """Logits, float32 [batch, length, vocab]."""
        return self.project(self.hidden(ids), self.lm_head).float()

    def moe_layers(self):
        return [layer.block_sparse_moe for layer in self.layers if hasattr(layer, "block_sparse_moe")]
