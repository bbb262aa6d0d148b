"""Wrong versions of the forward pass, one mistake each, to show that the golden cases catch them.

A class replaces the one method that the mistake is about; its docstring says what is wrong.
"""

import numpy as np

import model
from model import Model, sigmoid, silu, softmax

E2M1_POSITIVE = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


# ---- the three of docs/model.md section 4 ----

class ALogPerChannel(Model):
    """A_log is taken by channel of the head instead of by head."""

    def a(self, at):
        values = self.w(at + "A_log").ravel()[None, :self.config.kda_dim]
        # A layout without padding has no entry for each channel: this mistake cannot happen.
        return np.exp(values) if values.size == self.config.kda_dim else super().a(at)


class ClampedSoftplusDecay(Model):
    """gate_lower_bound clamps the softplus decay instead of bounding the sigmoid form."""

    def decay(self, at, g):
        log_decay = -self.a(at) * self.softplus(g)
        if self.config.gate_lower_bound is not None:
            log_decay = np.maximum(log_decay, self.config.gate_lower_bound)
        return np.exp(log_decay)


class ExpertsWeighedWithBias(Model):
    """The experts are weighed by the biased scores."""

    def weigh(self, scores, choice):
        return super().weigh(choice, choice)


# ---- KDA ----

class ONormEps(Model):
    """o_norm uses 1e-6 instead of rms_norm_eps."""

    def o_norm_eps(self):
        return 1e-6


class NoL2Eps(Model):
    """q and k are normalised without the epsilon."""

    def l2(self, x):
        return x / np.sqrt((x * x).sum(axis=-1, keepdims=True) + 1e-30)


class ConvTapsReversed(Model):
    """The first tap is taken for the current position."""

    def taps(self, taps):
        return taps[:, ::-1]


class ConvWithoutSilu(Model):
    """No activation follows the convolution."""

    def conv_activation(self, x):
        return x


class ConvTailDropped(Model):
    """The inputs before a call are taken as zero instead of carried over."""

    def conv(self, layer, which, at, x, state):
        state.conv.pop((layer, which), None)
        return super().conv(layer, which, at, x, state)


class QNotScaled(Model):
    """q is not multiplied by D^-0.5 (o_norm hides it but for its epsilon)."""

    def delta_step(self, s, q, k, v, decay, beta):
        return super().delta_step(s, q * self.config.kda_dim**0.5, k, v, decay, beta)


class NoDtBias(Model):
    """dt_bias is left out."""

    def dt_bias(self, at):
        return 0


class LowerBoundFixed(Model):
    """-5 is used whatever gate_lower_bound says."""

    def gate_lower_bound(self):
        return -5.0


class SoftplusOverflow(Model):
    """softplus is log(1 + exp(x)) in f32 without a threshold, so it overflows."""

    def softplus(self, x):
        with np.errstate(over="ignore"):
            return np.log1p(np.exp(x.astype(np.float32))).astype(x.dtype)


class BetaWithoutSigmoid(Model):
    """beta is used as projected."""

    def beta(self, at, x):
        return self.linear(x, at + "b_proj")


class OReadsOldState(Model):
    """o reads the state before the position's update."""

    def delta_step(self, s, q, k, v, decay, beta):
        _, new = super().delta_step(s, q, k, v, decay, beta)
        return np.einsum("hk,hkv->hv", q, s * decay[..., None]), new


class DecayAfterUpdate(Model):
    """The state decays after the update instead of before."""

    def delta_step(self, s, q, k, v, decay, beta):
        o, new = super().delta_step(s, q, k, v, np.ones_like(decay), beta)
        return o, new * decay[..., None]


class NoDeltaCorrection(Model):
    """The update adds k beta v without subtracting what the state already says."""

    def delta_step(self, s, q, k, v, decay, beta):
        s = s * decay[..., None] + k[..., None] * (beta[:, None] * v)[:, None, :]
        return np.einsum("hk,hkv->hv", q, s), s


class DecayOnValues(Model):
    """The decay is applied along the value axis of the state."""

    def delta_step(self, s, q, k, v, decay, beta):
        return super().delta_step(s * decay[:, None, :], q, k, v, np.ones_like(decay), beta)


class NoKdaGate(Model):
    """The output gate of KDA is missing."""

    def kda_gate(self, at, x):
        return 1


class KdaGateSilu(Model):
    """The output gate of KDA is SiLU instead of sigmoid."""

    def kda_gate(self, at, x):
        gate = super().kda_gate(at, x)
        return gate * np.log(gate / (1 - gate))


# ---- MLA ----

class LatentNormEps(Model):
    """The latent norms use rms_norm_eps instead of 1e-6."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.LATENT_EPS = self.config.rms_eps


class NoMlaGate(Model):
    """The output gate of MLA is missing."""

    def mla_output_gate(self, at, x):
        return 1


class QueryRopeFirst(Model):
    """The query's head is read as rope then nope."""

    def split_query(self, q):
        return q[..., self.config.rope:], q[..., :self.config.rope]


class KRopeFirst(Model):
    """kv_a_proj_with_mqa is read as rope then latent."""

    def split_compressed(self, c):
        return c[:, self.config.rope:], c[:, :self.config.rope]


class KRopeNormalised(Model):
    """k_rope is normalised too."""

    def split_compressed(self, c):
        latent, k_rope = super().split_compressed(c)
        return latent, model.unit_rms(k_rope, self.LATENT_EPS)


class KvSplitAcrossHeads(Model):
    """kv_b_proj is read as the keys of all heads, then the values of all heads."""

    def split_kv(self, kv):
        c = self.config
        keys = kv[:, :c.mla_heads * c.nope].reshape(len(kv), c.mla_heads, c.nope)
        return keys, kv[:, c.mla_heads * c.nope:].reshape(len(kv), c.mla_heads, c.v_head)


class RopeRotated(Model):
    """The rope parts are rotated by position."""

    def position(self, q_rope, k_rope, start):
        def rotate(x, positions):
            half = x.shape[-1] // 2
            angle = positions[:, None] * 10000.0 ** (-np.arange(half) / max(half, 1))
            angle = angle if x.ndim == 2 else angle[:, None]
            a, b = x[..., :half], x[..., half:2 * half]
            turned = [a * np.cos(angle) - b * np.sin(angle),
                      a * np.sin(angle) + b * np.cos(angle), x[..., 2 * half:]]
            return np.concatenate(turned, axis=-1)
        return (rotate(q_rope, start + np.arange(len(q_rope))),
                rotate(k_rope, np.arange(len(k_rope))))


class NoRopePart(Model):
    """The rope parts are left out of the score, as there is no rotation."""

    def position(self, q_rope, k_rope, start):
        return np.zeros_like(q_rope), k_rope


class MlaScaleNope(Model):
    """The scale is nope^-0.5."""

    def mla_scale(self):
        return self.config.nope ** -0.5


# ---- attention residuals and norms ----

class BlockBoundaryOffByOne(Model):
    """Blocks start one layer early."""

    def starts_block(self, layer):
        return bool(self.config.block) and (layer + 1) % self.config.block == 0


class BlockKeepsResidual(Model):
    """The running residual goes on after it became a block."""

    def restart(self, p):
        return p


class AttnresMixesNormalised(Model):
    """The normalised sources are mixed instead of the raw ones."""

    def mix(self, weights, sources, unit):
        return super().mix(weights, unit, unit)


class AttnresNotNormalised(Model):
    """The scores are taken of the raw sources."""

    def attnres(self, blocks, p, name):
        sources = np.stack([*blocks, p])
        vector = self.w(name + "_res_norm.weight") * self.w(name + "_res_proj.weight")[0]
        return (softmax((sources * vector).sum(axis=-1), axis=0)[..., None] * sources).sum(axis=0)


class NoOutputResidual(Model):
    """The last attention residual, before the final norm, is missing."""

    def output_residual(self, blocks, p):
        return p


class RmsEpsFixed(Model):
    """1e-5 is used whatever rms_norm_eps says."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.config.rms_eps = 1e-5


# ---- activation ----

class LinearBetaDefault(Model):
    """Without a linear beta, 25 is put in."""

    def situ_linear(self, u):
        c = self.config.situ_linear_beta or 25.0
        return c * np.tanh(u / c)


class LinearBetaIgnored(Model):
    """The linear part of SiTU is not bounded."""

    def situ_linear(self, u):
        return u


class SituSigmoidOfBounded(Model):
    """The sigmoid of SiTU is taken of the bounded gate."""

    def act(self, g, u):
        if self.config.activation == "silu":
            return super().act(g, u)
        return silu(self.situ_gate(g)) * self.situ_linear(u)


class SituBetaDefault(Model):
    """4 is used whatever activation_situ_beta says."""

    def situ_gate(self, g):
        return 4 * np.tanh(g / 4)


class SituBetaZeroUnbounded(Model):
    """A beta of 0 or none is read as unbounded instead of as 1."""

    def situ_gate(self, g):
        return super().situ_gate(g) if self.config.situ_beta != 1 else g


class SiluForSitu(Model):
    """SiLU is used for SiTU."""

    def act(self, g, u):
        return silu(g) * u


class GateUpSwapped(Model):
    """gate and up (w1 and w3) are exchanged."""

    def act(self, g, u):
        return super().act(u, g)


# ---- router and experts ----

class BiasIgnored(Model):
    """The experts are chosen by the scores without the bias."""

    def choice(self, scores, bias):
        return scores


class SigmoidForSoftmax(Model):
    """Softmax routing is replaced by sigmoid."""

    def router_scores(self, logits):
        return sigmoid(logits)


class RenormalizeTopOne(Model):
    """A single expert is renormalised too, so that it always weighs the scaling factor."""

    def renormalizes(self):
        return True


class NotRenormalized(Model):
    """The weights are not renormalised."""

    def renormalizes(self):
        return False


class RenormalizedAlways(Model):
    """The weights are renormalised whatever moe_renormalize says."""

    def weigh(self, scores, choice):
        return scores / scores.sum(axis=1, keepdims=True) * self.config.routed_scale


class RenormalizeEpsMissing(Model):
    """The 1e-20 under the sum of the weights is missing."""

    def renormalize_eps(self):
        return 0


class ScaleBeforeRenormalize(Model):
    """routed_scaling_factor is applied before the renormalisation, which removes it."""

    def weigh(self, scores, choice):
        weights = super().weigh(scores, choice)
        if self.config.renormalize and self.renormalizes():
            weights = weights / self.config.routed_scale
        return weights


class ScaleOnlyIfRenormalized(Model):
    """routed_scaling_factor is applied only together with the renormalisation."""

    def weigh(self, scores, choice):
        weights = super().weigh(scores, choice)
        return weights if self.config.renormalize else weights / self.config.routed_scale


class MaskedGroupsZero(Model):
    """Experts of the groups not kept count as 0 instead of minus infinity."""

    def masked_value(self):
        return 0.0


class GroupScoreBest(Model):
    """A group is judged by its best expert alone."""

    def group_score(self, grouped):
        return grouped.max(axis=-1)


class GroupsIgnored(Model):
    """Expert groups are ignored."""

    def mask_groups(self, choice, scores, bias):
        return choice, np.inf


class TiesToHigherIndex(Model):
    """Between equal experts the higher index wins."""

    def top(self, choice):
        order = np.argsort(-choice[:, ::-1], axis=1, kind="stable")[:, :self.config.top_k]
        return choice.shape[1] - 1 - order


class ExpertIdInByte(Model):
    """Expert ids are kept in eight bits."""

    def top(self, choice):
        return super().top(choice) % 256


class RouterReadsUnnormalised(Model):
    """The router reads the hidden state before the norm."""

    def router_input(self, x, unnormalised):
        return unnormalised


class NoLatentNorm(Model):
    """The norm after the experts is missing."""

    def latent_norm(self, y, at):
        return y


class MoeLayerFreqIgnored(Model):
    """The dense layers that moe_layer_freq asks for are skipped."""

    def ffn(self, layer, at, x, unnormalised, trace):
        if self.is_dense(layer) and layer >= self.config.first_dense:
            return np.zeros_like(x)
        return super().ffn(layer, at, x, unnormalised, trace)


class _Mxfp4(Model):
    """Decodes MXFP4 itself, so that the codes and scales can be misread."""

    def w(self, name):
        if name not in self._weights and ".experts." in name and self.config.mxfp4:
            packed = self.checkpoint.tensor(name + "_packed").raw
            scale = self.checkpoint.tensor(name + "_scale").raw.astype(int)
            codes = np.stack(self.nibbles(packed), axis=-1).reshape(len(packed), -1)
            values = np.where(codes & 8, -1, 1) * E2M1_POSITIVE[codes & 7]
            values = values * np.repeat(self.scale(scale), 32, axis=1)
            self._weights[name] = values.astype(self.dtype)
        return super().w(name)

    def nibbles(self, packed):
        return packed & 15, packed >> 4

    def scale(self, scale):
        return np.exp2(scale - 127.0)


class HighNibbleFirst(_Mxfp4):
    """The high nibble is read as the even column."""

    def nibbles(self, packed):
        return packed >> 4, packed & 15


class ScaleZeroFlushed(_Mxfp4):
    """Scale byte 0, which is subnormal in f32, is flushed to zero."""

    def scale(self, scale):
        return np.where(scale == 0, 0.0, super().scale(scale))


class ScaleOffByOne(_Mxfp4):
    """The scale is 2^(s-128)."""

    def scale(self, scale):
        return np.exp2(scale - 128.0)


def _name(cls):
    text = "".join("_" + c.lower() if c.isupper() else c for c in cls.__name__)
    return text.lstrip("_")


# name -> class, in the order of this file.
MISTAKES = {_name(cls): cls for cls in list(globals().values())
            if isinstance(cls, type) and issubclass(cls, Model) and cls is not model.Model
            and not cls.__name__.startswith("_")}
