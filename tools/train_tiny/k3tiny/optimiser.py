"""Muon for the matrices inside the layers, AdamW for everything else, over flat shared memory."""

from collections import defaultdict

import torch

_MUON_MOMENTUM, _MUON_DECAY = 0.95, 0.1
# The shared experts learn freely at first, which is quicker; then they are held small, so that the
# routed experts must carry what a token needs.
_SHARED_DECAY, _SHARED_DECAY_FROM = 1.5, 450
_ADAM_BETAS, _ADAM_EPS, _ADAM_DECAY = (0.9, 0.95), 1e-8, 0.1
_ROUTER_SHARE = 0.3  # of AdamW's rate


def uses_muon(name, shape):
    own = name.rsplit(".", 1)[-1]
    return name.startswith("layers.") and len(shape) >= 2 and own != "gate" and not own.endswith(("conv1d", "res_proj"))


@torch.no_grad()
def orthogonal(matrices):
    """Newton-Schulz: [batch, m, n] with their singular values brought near 1."""
    x = matrices.bfloat16()
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.transpose(1, 2)
    x = x / (x.float().norm(dim=(1, 2), keepdim=True) + 1e-7).bfloat16()
    for _ in range(5):
        a = x @ x.transpose(1, 2)
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    return (x.transpose(1, 2) if tall else x).float()


class Optimiser:
    """Updates the named parameters it is given; `views` maps a name to its (first, second) moments."""

    def __init__(self, parameters, views):
        self.adam, self.muon = [], defaultdict(list)
        for name, p in parameters:
            if uses_muon(name, p.shape):
                self.muon[p.shape[-2:]].append((name, p, views[name][0]))
            else:
                self.adam.append((name, p, *views[name]))

    @torch.no_grad()
    def step(self, number, gradient, muon_rate, adam_rate):
        """`gradient(p)` is the clipped gradient of p; number counts from 1."""
        for shape, members in self.muon.items():
            self._muon(number, shape, members, gradient, muon_rate)
        correction = [1.0 - beta**number for beta in _ADAM_BETAS]
        for name, p, first, second in self.adam:
            g = gradient(p)
            first.lerp_(g, 1.0 - _ADAM_BETAS[0])
            second.lerp_(g * g, 1.0 - _ADAM_BETAS[1])
            rate = adam_rate * (_ROUTER_SHARE if name.endswith("moe.gate") else 1.0)
            if name in ("embed_tokens", "lm_head"):
                p.mul_(1.0 - rate * _ADAM_DECAY)
            p.addcdiv_(first / correction[0], (second / correction[1]).sqrt_().add_(_ADAM_EPS), value=-rate)

    @staticmethod
    def _muon(number, shape, members, gradient, rate):
        updates = []
        for _, p, momentum in members:
            g = gradient(p)
            momentum.lerp_(g, 1.0 - _MUON_MOMENTUM)
            updates.append(g.lerp(momentum, _MUON_MOMENTUM).reshape(-1, *shape))
        result = orthogonal(torch.cat(updates))
        scale, at = rate * 0.2 * max(shape) ** 0.5, 0
        for (name, p, _), update in zip(members, updates):
            shared = ".shared." in name and number > _SHARED_DECAY_FROM
            p.mul_(1.0 - rate * (_SHARED_DECAY if shared else _MUON_DECAY))
            p.sub_(result[at : at + len(update)].view_as(p), alpha=scale)
            at += len(update)
