"""MXFP4: values of four bits (E2M1) that share a power-of-two scale (E8M0) along 32 columns."""

import torch

GROUP = 32
_MAGNITUDES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


def _scaled(weight):
    """The weight in units of its group's scale, and the scale's exponents. The largest value of a
    group lands in [3.5, 7), so that rounding to at most 6 costs little."""
    groups = weight.detach().float().unflatten(-1, (-1, GROUP))
    largest = groups.abs().amax(-1, keepdim=True).clamp_min(2.0**-100)
    exponent = torch.frexp(largest).exponent - 3
    exponent = exponent + (largest * torch.exp2(-exponent.float()) > 7.0)
    return groups * torch.exp2(-exponent.float()), exponent


def _round(x):
    """To the nearest E2M1 magnitude, the even code on ties; x is not negative."""
    step = torch.where(x < 2.0, 0.5, torch.where(x < 4.0, 1.0, 2.0))
    return (torch.round(x / step) * step).clamp_max(6.0)


def rounded(weight):
    """The weight as it comes back from MXFP4."""
    x, exponent = _scaled(weight)
    value = torch.copysign(_round(x.abs()), x) * torch.exp2(exponent.float())
    return value.flatten(-2)


def straight_through(weight):
    """The rounded weight forward, the gradient of the plain one backward."""
    return weight + (rounded(weight) - weight).detach()


def pack(weight):
    """(packed, scale) as stored: uint8 [rows, columns / 2] and [rows, columns / 32]."""
    x, exponent = _scaled(weight)
    code = torch.searchsorted(_MAGNITUDES, _round(x.abs()).contiguous())
    code = (code + 8 * ((x < 0) & (code > 0))).to(torch.uint8).flatten(-2)
    packed = code[..., 0::2] | (code[..., 1::2] << 4)
    return packed.contiguous(), (exponent.squeeze(-1) + 127).to(torch.uint8)


def unpack(packed, scale):
    if (scale == 255).any():
        raise ValueError("an MXFP4 scale is NaN")
    code = torch.stack((packed & 15, packed >> 4), -1).flatten(-2).long()
    value = _MAGNITUDES[code & 7] * torch.where(code >= 8, -1.0, 1.0)
    groups = value.unflatten(-1, (-1, GROUP)) * torch.exp2(scale.float() - 127)[..., None]
    return groups.flatten(-2)
