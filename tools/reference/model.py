"""The forward pass of docs/model.md section 3, written for reading, in NumPy.

Shapes in comments: T positions of the call, H hidden, D the KDA head dim. One sequence, any
chunking: what has to survive between calls is in State. Each step that is easy to get wrong
is a method of its own, so that mistakes.py can replace exactly one.
"""

import numpy as np

L2_EPS = 1e-6


def sigmoid(x):
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def softplus(x):
    return np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 20))))


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def unit_rms(x, eps):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)


class State:
    """What a sequence carries from one call to the next, by layer."""

    def __init__(self):
        self.length = 0
        self.delta = {}  # [heads, key, value]
        self.conv = {}   # (layer, "q" | "k" | "v") -> the last `taps` inputs, [P, taps]
        self.latent = {}  # [length, kv_lora]
        self.k_rope = {}  # [length, rope]


class Trace:
    """What happened inside one call, in the meaning of the golden files."""

    def __init__(self):
        self.layers = []   # per layer [5, T, H]
        self.final = None  # [2, T, H]
        self.router_ids = {}  # layer -> [T, k], best first
        self.router_weights = {}  # layer -> [T, k]
        self.router_margins = {}  # layer -> [T]


class Model:
    # Both latent norms of MLA have their own epsilon, whatever the config says.
    LATENT_EPS = 1e-6

    def __init__(self, checkpoint, dtype=np.float64):
        self.checkpoint = checkpoint
        self.config = checkpoint.config
        self.dtype = dtype
        self._weights = {}

    def w(self, name):
        if name not in self._weights:
            self._weights[name] = self.checkpoint.weight(name).astype(self.dtype)
        return self._weights[name]

    def linear(self, x, name):
        return x @ self.w(name + ".weight").T

    def rms(self, x, name, eps=None):
        return self.w(name + ".weight") * unit_rms(x, eps or self.config.rms_eps)

    # ---- the walk ----

    def forward(self, tokens, state, trace=None):
        """Logits [T, vocab] of the next `tokens` of the sequence in `state`."""
        trace = trace or Trace()
        p, blocks = self.w("model.embed_tokens.weight")[np.asarray(tokens)], []
        for layer in range(self.config.layers):
            p = self.layer(layer, p, blocks, state, trace)
        x = self.output_residual(blocks, p)
        h = self.rms(x, "model.norm")
        trace.final = np.stack([x, h])
        state.length += len(tokens)
        return self.linear(h, "lm_head")

    def layer(self, layer, p, blocks, state, trace):
        at = f"model.layers.{layer}."
        x = self.attnres(blocks, p, at + "self_attention") if blocks else p
        if self.starts_block(layer):
            blocks.append(p)
            p = self.restart(p)
        x1 = self.rms(x, at + "input_layernorm")
        attention = self.kda if layer in self.config.kda_layers else self.mla
        a = attention(layer, at + "self_attn.", x1, state)
        p = a if p is None else p + a
        x = self.attnres(blocks, p, at + "mlp") if self.config.block else p
        x2 = self.rms(x, at + "post_attention_layernorm")
        f = self.ffn(layer, at, x2, x, trace)
        p = p + f
        trace.layers.append(np.stack([x1, a, x2, f, p]))
        return p

    # ---- attention residuals ----

    def starts_block(self, layer):
        return bool(self.config.block) and layer % self.config.block == 0

    def restart(self, p):
        """The running residual after it became a block: nothing."""
        return None

    def attnres(self, blocks, p, name):
        sources = np.stack([*blocks, p])  # [sources, T, H]
        norm, proj = self.w(name + "_res_norm.weight"), self.w(name + "_res_proj.weight")[0]
        unit = unit_rms(sources, self.config.rms_eps)
        weights = softmax((unit * norm * proj).sum(axis=-1), axis=0)
        return self.mix(weights[..., None], sources, unit)

    def mix(self, weights, sources, unit):
        return (weights * sources).sum(axis=0)

    def output_residual(self, blocks, p):
        return self.attnres(blocks, p, "model.output_attn") if self.config.block else p

    # ---- KDA ----

    def kda(self, layer, at, x, state):
        heads, dim = self.config.kda_heads, self.config.kda_dim
        q, k, v = (self.conv(layer, which, at, self.linear(x, f"{at}{which}_proj"), state)
                   .reshape(len(x), heads, dim) for which in "qkv")
        q, k = self.l2(q) * dim**-0.5, self.l2(k)
        g = self.linear(self.linear(x, at + "f_a_proj"), at + "f_b_proj") + self.dt_bias(at)
        decay = self.decay(at, g.reshape(len(x), heads, dim))
        beta = self.beta(at, x)
        s = state.delta.get(layer, np.zeros((heads, dim, dim), self.dtype))
        o = np.empty_like(v)
        for t in range(len(x)):
            o[t], s = self.delta_step(s, q[t], k[t], v[t], decay[t], beta[t])
        state.delta[layer] = s
        o = self.rms(o, at + "o_norm", self.o_norm_eps()).reshape(len(x), -1)
        return self.linear(o * self.kda_gate(at, x), at + "o_proj")

    def conv(self, layer, which, at, x, state):
        """Depthwise causal convolution and SiLU; x is [T, P], earlier inputs are in `state`."""
        taps = self.taps(self.w(f"{at}{which}_conv1d.weight")[:, 0, :])
        count = self.config.taps
        before = state.conv.get((layer, which), np.zeros((x.shape[1], count), self.dtype))
        inputs = np.concatenate([before, x.T], axis=1)  # [P, count + T]
        state.conv[layer, which] = inputs[:, -count:]
        # Output t sees the inputs t - count + 1 ... t, the last tap being on t itself.
        out = sum(taps[:, [i]] * inputs[:, i + 1:i + 1 + len(x)] for i in range(count))
        return self.conv_activation(out.T)

    def taps(self, taps):
        return taps

    def conv_activation(self, x):
        return silu(x)

    def l2(self, x):
        return x / np.sqrt((x * x).sum(axis=-1, keepdims=True) + L2_EPS)

    def dt_bias(self, at):
        return self.w(at + "dt_bias")

    def a(self, at):
        """exp(A_log) by head, [heads, 1]; entries after the first `heads` are padding."""
        return np.exp(self.w(at + "A_log").ravel()[:self.config.kda_heads, None])

    def decay(self, at, g):
        """[T, heads, D] -> the factor of each key channel of the state."""
        if self.config.gate_lower_bound is None:
            return np.exp(-self.a(at) * self.softplus(g))
        return np.exp(self.gate_lower_bound() * sigmoid(self.a(at) * g))

    def softplus(self, x):
        return softplus(x)

    def gate_lower_bound(self):
        return self.config.gate_lower_bound

    def beta(self, at, x):
        return sigmoid(self.linear(x, at + "b_proj"))

    def delta_step(self, s, q, k, v, decay, beta):
        """One position of every head; s is [heads, key, value]."""
        s = s * decay[..., None]
        d = beta[:, None] * (v - np.einsum("hk,hkv->hv", k, s))
        s = s + k[..., None] * d[:, None, :]
        return np.einsum("hk,hkv->hv", q, s), s

    def o_norm_eps(self):
        return self.config.rms_eps

    def kda_gate(self, at, x):
        if self.config.full_rank_gate:
            return sigmoid(self.linear(x, at + "g_proj"))
        return sigmoid(self.linear(self.linear(x, at + "g_a_proj"), at + "g_b_proj"))

    # ---- MLA ----

    def mla(self, layer, at, x, state):
        """The plain form: keys and values are expanded from the cached latent each time."""
        c, count = self.config, len(x)
        if c.q_lora:
            q = self.rms(self.linear(x, at + "q_a_proj"), at + "q_a_layernorm", self.LATENT_EPS)
            q = self.linear(q, at + "q_b_proj")
        else:
            q = self.linear(x, at + "q_proj")
        q_nope, q_rope = self.split_query(q.reshape(count, c.mla_heads, c.nope + c.rope))
        latent, k_rope = self.split_compressed(self.linear(x, at + "kv_a_proj_with_mqa"))
        latent = self.rms(latent, at + "kv_a_layernorm", self.LATENT_EPS)
        if layer in state.latent:
            latent = np.concatenate([state.latent[layer], latent])
            k_rope = np.concatenate([state.k_rope[layer], k_rope])
        state.latent[layer], state.k_rope[layer] = latent, k_rope
        k_nope, v = self.split_kv(self.linear(latent, at + "kv_b_proj"))
        q_rope, k_rope = self.position(q_rope, k_rope, state.length)
        scores = np.einsum("thd,shd->hts", q_nope, k_nope)
        scores = (scores + np.einsum("thd,sd->hts", q_rope, k_rope)) * self.mla_scale()
        future = np.arange(len(latent)) > state.length + np.arange(count)[:, None]
        weights = softmax(np.where(future, -np.inf, scores), axis=-1)
        o = np.einsum("hts,shd->thd", weights, v).reshape(count, -1)
        if c.mla_gate:
            o = o * self.mla_output_gate(at, x)
        return self.linear(o, at + "o_proj")

    def split_query(self, q):
        return q[..., :self.config.nope], q[..., self.config.nope:]

    def split_compressed(self, c):
        """-> latent, and the one k_rope that all heads share."""
        return c[:, :self.config.kv_lora], c[:, self.config.kv_lora:]

    def split_kv(self, kv):
        c = self.config
        kv = kv.reshape(len(kv), c.mla_heads, c.nope + c.v_head)
        return kv[..., :c.nope], kv[..., c.nope:]

    def position(self, q_rope, k_rope, start):
        """There is no positional encoding: the rope parts stay as they are."""
        return q_rope, k_rope

    def mla_scale(self):
        return (self.config.nope + self.config.rope) ** -0.5

    def mla_output_gate(self, at, x):
        return sigmoid(self.linear(x, at + "g_proj"))

    # ---- feed-forward ----

    def ffn(self, layer, at, x, unnormalised, trace):
        if self.is_dense(layer):
            return self.mlp(x, at + "mlp.", ("gate_proj", "up_proj", "down_proj"))
        return self.moe(layer, at + "block_sparse_moe.", x, unnormalised, trace)

    def is_dense(self, layer):
        return self.config.is_dense(layer)

    def act(self, g, u):
        c = self.config
        if c.activation == "silu":
            return silu(g) * u
        return self.situ_gate(g) * sigmoid(g) * self.situ_linear(u)

    def situ_gate(self, g):
        return self.config.situ_beta * np.tanh(g / self.config.situ_beta)

    def situ_linear(self, u):
        c = self.config.situ_linear_beta
        return u if c is None else c * np.tanh(u / c)

    def mlp(self, x, at, names):
        gate, up, down = (at + name for name in names)
        return self.linear(self.act(self.linear(x, gate), self.linear(x, up)), down)

    def expert(self, x, at, expert):
        return self.mlp(x, f"{at}experts.{expert}.", ("w1", "w3", "w2"))

    def moe(self, layer, at, x, unnormalised, trace):
        c = self.config
        picked, weights = self.route(layer, at, self.router_input(x, unnormalised), trace)
        z = self.linear(x, at + "routed_expert_down_proj") if c.latent else x
        y = np.zeros_like(z)
        for expert in np.unique(picked):
            rows, places = np.nonzero(picked == expert)
            y[rows] += weights[rows, places][:, None] * self.expert(z[rows], at, expert)
        if c.latent:
            y = self.linear(self.latent_norm(y, at), at + "routed_expert_up_proj")
        if c.shared:
            y = y + self.mlp(x, at + "shared_experts.", ("gate_proj", "up_proj", "down_proj"))
        return y

    def latent_norm(self, y, at):
        return self.rms(y, at + "routed_expert_norm") if self.config.latent_norm else y

    # ---- router ----

    def router_input(self, x, unnormalised):
        return x

    def route(self, layer, at, x, trace):
        """The chosen experts [T, k], best first, and their weights [T, k]."""
        # Summed row by row, so that equal router rows give equal numbers to the last bit.
        logits = (x[:, None, :] * self.w(at + "gate.weight")).sum(axis=-1)
        scores = self.router_scores(logits)
        bias = self.w(at + "gate.e_score_correction_bias")
        choice = self.choice(scores, bias)
        masked, group_margin = self.mask_groups(choice, scores, bias)
        picked = self.top(masked)
        weights = self.weigh(np.take_along_axis(scores, picked, axis=1),
                             np.take_along_axis(choice, picked, axis=1))
        trace.router_ids[layer], trace.router_weights[layer] = picked, weights
        trace.router_margins[layer] = np.minimum(
            group_margin, boundary_margin(masked, scores + abs(bias), self.config.top_k))
        return picked, weights

    def router_scores(self, logits):
        return sigmoid(logits) if self.config.router == "sigmoid" else softmax(logits, axis=-1)

    def choice(self, scores, bias):
        return scores + bias

    def top(self, choice):
        """The k largest, ties to the lower index."""
        return np.argsort(-choice, axis=1, kind="stable")[:, :self.config.top_k]

    def mask_groups(self, choice, scores, bias):
        """Sets the experts of the groups not kept to minus infinity."""
        c = self.config
        if c.groups == 1 or c.top_groups >= c.groups:
            return choice, np.inf
        grouped = choice.reshape(len(choice), c.groups, -1)
        best = self.group_score(grouped)
        kept = np.argsort(-best, axis=1, kind="stable")[:, :c.top_groups]
        keep = np.zeros_like(best, dtype=bool)
        np.put_along_axis(keep, kept, True, axis=1)
        size = (scores + abs(bias)).reshape(grouped.shape).max(axis=-1)
        masked = np.where(keep[..., None], grouped, self.masked_value())
        return masked.reshape(choice.shape), boundary_margin(best, size, c.top_groups)

    def group_score(self, grouped):
        return np.sort(grouped, axis=-1)[..., -2:].sum(axis=-1)

    def masked_value(self):
        return -np.inf

    def weigh(self, scores, choice):
        """Weights of the picked experts; the bias chooses and never weighs."""
        if self.config.renormalize and self.renormalizes():
            scores = scores / (scores.sum(axis=1, keepdims=True) + self.renormalize_eps())
        return scores * self.config.routed_scale

    def renormalizes(self):
        return self.config.top_k > 1

    def renormalize_eps(self):
        return 1e-20


def boundary_margin(values, size, count):
    """Per row: how far the choice of the `count` largest is from another one.

    The distance is relative to `size`, the magnitude of the numbers that were added. Values
    equal to the last chosen one are exact ties, which the index decides; with such ties the
    next larger value must keep its distance as well.
    """
    margins = np.full(len(values), np.inf)
    if count >= values.shape[1]:
        return margins
    for row, (v, s) in enumerate(zip(values, size)):
        order = np.argsort(-v, kind="stable")
        last = order[count - 1]
        near = [i for i in order if np.isfinite(v[i]) and v[i] < v[last]][:1]
        if v[order[count]] == v[last]:
            near += [i for i in order[:count] if v[i] > v[last]][-1:]
        for i in near:
            margins[row] = min(margins[row], abs(v[last] - v[i]) / max(s[last], s[i]))
    return margins


def greedy(model, prompt, count, trace=None):
    """Returns (prompt logits [T, vocab], greedy ids, the logits behind each [count, vocab],
    the state after the prompt, the margins of all router decisions)."""
    state, trace = State(), trace or Trace()
    prompt_logits = model.forward(prompt, state, trace)
    after = State()
    after.delta, after.conv = dict(state.delta), dict(state.conv)
    margins = [np.concatenate([m for m in trace.router_margins.values()] or [[np.inf]])]
    ids, rows = [], []
    logits = prompt_logits[-1]
    for step in range(count):
        ids.append(int(logits.argmax()))
        rows.append(logits)
        if step + 1 < count:
            inner = Trace()
            logits = model.forward([ids[-1]], state, inner)[-1]
            margins += list(inner.router_margins.values())
    return prompt_logits, ids, np.array(rows), after, np.concatenate(margins)
