"""Compiles kernels.c and makes its functions differentiable."""

import ctypes
import functools
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

import torch

_SOURCE = Path(__file__).with_name("kernels.c")
_FLAGS = ("-O3", "-march=native", "-mprefer-vector-width=512", "-ffast-math", "-shared", "-fPIC")


@functools.lru_cache(maxsize=None)
def _library(head_dim, taps):
    flags = (*_FLAGS, f"-DHEAD_DIM={head_dim}", f"-DTAPS={taps}")
    key = hashlib.sha256(_SOURCE.read_bytes() + repr(flags).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"train_tiny-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    library = folder / f"kernels-{key}.so"
    if not library.exists():
        scratch = library.with_suffix(f".{os.getpid()}")
        subprocess.run(["gcc", *flags, str(_SOURCE), "-o", str(scratch), "-lm"], check=True)
        scratch.rename(library)
    return ctypes.CDLL(str(library))


def _call(function, *arguments):
    kinds = {int: ctypes.c_int, float: ctypes.c_float}
    function(*(ctypes.c_void_p(a.data_ptr()) if torch.is_tensor(a) else kinds[type(a)](a) for a in arguments))


class _ConvSilu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        """x [batch, length, channels], weight [channels, taps]."""
        x, taps = x.contiguous(), weight.t().contiguous()
        y = torch.empty_like(x)
        _call(_library(32, taps.shape[0]).ConvSilu, *x.shape, x, taps, y)
        ctx.save_for_backward(x, taps)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, taps = ctx.saved_tensors
        dx, dtaps = torch.empty_like(x), torch.zeros_like(taps)
        scratch = x.new_empty(x.shape[1:])
        _call(_library(32, taps.shape[0]).ConvSiluBackward, *x.shape, x, taps, dy.contiguous(), dx, dtaps, scratch)
        return dx, dtaps.t()


class _Delta(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, decay, beta):
        q, k, v, decay, beta = (t.contiguous() for t in (q, k, v, decay, beta))
        batch, length, heads, dim = q.shape
        out = torch.empty_like(v)
        checkpoints = q.new_empty(batch, heads, (length + 15) // 16, dim, dim)
        _call(_library(dim, 4).Delta, batch, length, heads, q, k, v, decay, beta, out, checkpoints)
        ctx.save_for_backward(q, k, v, decay, beta, checkpoints)
        return out

    @staticmethod
    def backward(ctx, dout):
        q, k, v, decay, beta, checkpoints = ctx.saved_tensors
        grads = [torch.empty_like(t) for t in (q, k, v, decay, beta)]
        shape = q.shape[:3]
        _call(
            _library(q.shape[3], 4).DeltaBackward, *shape, q, k, v, decay, beta, checkpoints, dout.contiguous(), *grads
        )
        return tuple(grads)


class _Situ(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate_up, linear_beta):
        gate_up = gate_up.contiguous()
        width = gate_up.shape[-1] // 2
        y = gate_up.new_empty(*gate_up.shape[:-1], width)
        ctx.linear_beta = linear_beta
        ctx.save_for_backward(gate_up)
        _call(_library(32, 4).Situ, y.numel() // width, width, ctx.linear_beta, gate_up, y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (gate_up,) = ctx.saved_tensors
        grad = torch.empty_like(gate_up)
        width = dy.shape[-1]
        _call(_library(32, 4).SituBackward, dy.numel() // width, width, ctx.linear_beta, gate_up, dy.contiguous(), grad)
        return grad, None


def situ_bf16(gate_up, linear_beta):
    """SiTU with beta 4 of bfloat16 [..., gates | ups], computed in float32, rounded once."""
    return _Situ.apply(gate_up, float(linear_beta))


def conv_silu(x, weight):
    """Causal depthwise convolution, zeros before the start, then SiLU."""
    return _ConvSilu.apply(x, weight)


def delta_rule(q, k, v, decay, beta):
    """The gated delta rule of docs/model.md section 3 from a zero state; [batch, length, heads, dim]."""
    return _Delta.apply(q, k, v, decay, beta)
