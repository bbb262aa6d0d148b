"""The training run: processes that share parameters, a log, checkpoints and the best state."""

import argparse
import json
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.multiprocessing as mp
import torch.nn.functional as F

from . import evaluate
from .batches import Batches, Data
from .geometry import Geometry
from .initial import initialise
from .model import Model
from .optimiser import Optimiser

LENGTH = 256  # positions in a window
WINDOWS = 16  # windows in a step
WARM_UP = 40
DECAY_SHARE = 0.35  # of the steps, at the end, over which the rates fall to zero
ROUNDED_SHARE = 0.1  # of the steps, at the end, with experts rounded to MXFP4
MUON_RATE, ADAM_RATE = 0.015, 0.006
BIAS_RATE = 0.02
CLIP = 1.0


@dataclass
class Plan:
    """What a run is; stored with it, so that it is resumed as it began."""

    data: str
    out: str
    steps: int
    seed: int = 1
    workers: int = 2
    evaluate_every: int = 100
    save_every: int = 50


def rate_share(step, steps):
    """The learning rate of a step as a share of the highest."""
    warm = min(1.0, (step + 1) / WARM_UP)
    fall = min(1.0, (steps - step) / (DECAY_SHARE * steps))
    return warm * fall


class Shared:
    """Flat tensors that all processes see: parameters, one gradient each, both moments."""

    def __init__(self, model, workers):
        size = sum(p.numel() for p in model.parameters())
        self.parameters = torch.zeros(size).share_memory_()
        self.gradients = torch.zeros(workers, size).share_memory_()
        self.moments = torch.zeros(2, size).share_memory_()
        moes = model.moe_layers()
        self.loads = torch.zeros(workers, len(moes), model.g.experts).share_memory_()
        self.numbers = torch.zeros(workers, 8, dtype=torch.float64).share_memory_()


def views(flat, model):
    """{name: part of the flat tensor in the parameter's shape}."""
    result, at = {}, 0
    for name, p in model.named_parameters():
        result[name] = flat[at : at + p.numel()].view(p.shape)
        at += p.numel()
    return result


class Worker:
    """One process of a run. Every one computes its windows and updates its share of the parameters."""

    def __init__(self, rank, plan, shared, barrier):
        self.rank, self.plan, self.shared, self.barrier = rank, plan, shared, barrier
        self.data = Data(plan.data)
        self.batches = Batches(self.data, LENGTH, plan.seed)
        self.model = Model(Geometry(vocab=self.data.tokenizer.vocabulary_size))
        initialise(self.model, plan.seed)
        parameters, gradients = views(shared.parameters, self.model), views(shared.gradients[rank], self.model)
        for name, p in self.model.named_parameters():
            if rank == 0:
                parameters[name].copy_(p.data)
            p.data, p.grad = parameters[name], gradients[name]
        self.first, self.last = self._share()
        self.optimiser = self._optimiser()
        self.bias = torch.zeros_like(shared.loads[0])
        self.step, self.seconds, self.best = 0, 0.0, None
        self.settings = self.model.settings
        self.settings.fused, self.settings.product = True, torch.bfloat16
        self.lengths = torch.from_numpy(self.data.byte_lengths)

    def _share(self):
        """The names of this worker's parameters: runs of the list with equal numbers of weights."""
        size, workers, at, mine = self.shared.parameters.numel(), self.plan.workers, 0, []
        for name, p in self.model.named_parameters():
            if (at + p.numel() / 2) * workers // size == self.rank:
                mine.append((name, p, at, at + p.numel()))
            at += p.numel()
        self.mine = [(name, p) for name, p, _, _ in mine]
        return mine[0][2], mine[-1][3]

    def _optimiser(self):
        first, second = (views(m, self.model) for m in self.shared.moments)
        return Optimiser(self.mine, {name: (first[name], second[name]) for name, _ in self.mine})

    # One step

    def compute(self):
        """Loss and gradient of this worker's windows; leaves the numbers for the log."""
        kinds, ids, mask = self.batches.batch(self.step, range(self.rank, WINDOWS, self.plan.workers))
        ids, mask = torch.from_numpy(ids), torch.from_numpy(mask).float()
        self.shared.gradients[self.rank].zero_()
        logits = self.model(ids[:, :-1])
        losses = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none").view_as(mask) * mask
        (losses.sum() / (WINDOWS * LENGTH)).backward()
        with torch.no_grad():
            book = torch.tensor([kind != "chat" for kind in kinds])
            size = self.lengths[ids[:, 1:]]
            numbers = losses[book].sum(), size[book].sum(), losses[~book].sum(), mask[~book].sum()
            self.shared.numbers[self.rank, :4] = torch.tensor([float(n) for n in numbers])
            self.shared.loads[self.rank] = torch.stack([moe.load for moe in self.model.moe_layers()])

    def update(self):
        """Adds the workers' gradients, clips, moves this worker's parameters, balances the experts."""
        mine = slice(self.first, self.last)
        total = self.shared.gradients[0, mine]
        for other in self.shared.gradients[1:, mine]:
            total += other
        self.shared.numbers[self.rank, 4] = total.square().sum(dtype=torch.float64)
        self.barrier.wait()
        norm = math.sqrt(self.shared.numbers[:, 4].sum())
        scale = min(1.0, CLIP / (norm + 1e-12))
        summed = views(self.shared.gradients[0], self.model)
        where = {id(p): summed[name] for name, p in self.mine}
        share = rate_share(self.step, self.plan.steps)
        self.optimiser.step(self.step + 1, lambda p: where[id(p)] * scale, MUON_RATE * share, ADAM_RATE * share)
        self._balance()
        return norm

    def _balance(self):
        load = self.shared.loads.sum(0)
        mean = load.mean(-1, keepdim=True)
        self.bias += BIAS_RATE * ((mean - load) / mean).clamp(-1, 1)
        self.bias -= self.bias.mean(-1, keepdim=True)
        for moe, bias in zip(self.model.moe_layers(), self.bias):
            moe.bias.copy_(bias)
        self.load_range = (load / mean).min().item(), (load / mean).max().item()

    # The run

    def run(self):
        self.restore()
        self.barrier.wait()
        began = time.time() - self.seconds
        while self.step < self.plan.steps:
            self.settings.experts_rounded = self.step >= (1.0 - ROUNDED_SHARE) * self.plan.steps
            self.compute()
            self.barrier.wait()
            norm = self.update()
            self.barrier.wait()
            self.step += 1
            self.seconds = time.time() - began
            if self.rank == 0 and (self.step % 10 == 0 or self.step == 1):
                self._log_step(norm)
            self._now_and_then()

    def _now_and_then(self):
        last = self.step == self.plan.steps
        if self.step % self.plan.evaluate_every == 0 or last:
            self._evaluate()
        if self.rank == 0 and (self.step % self.plan.save_every == 0 or last):
            self._save()
        self.barrier.wait()

    def _log_step(self, norm):
        book, size, chat, count, *_ = self.shared.numbers.sum(0).tolist()
        self._log(
            step=self.step,
            tokens=self.step * WINDOWS * LENGTH,
            seconds=round(self.seconds, 1),
            train_bits_per_byte=round(book / max(size, 1) / math.log(2), 4),
            chat_bits_per_token=round(chat / max(count, 1) / math.log(2), 4),
            norm=round(norm, 3),
            load=[round(x, 2) for x in self.load_range],
        )

    def _log(self, **values):
        with open(Path(self.plan.out) / "log.jsonl", "a") as f:
            f.write(json.dumps(values) + "\n")

    def _evaluate(self):
        """A quarter of the held-out text, as it would be stored; each worker takes a text. Keeps the best."""
        rounded, fused = self.settings.experts_rounded, self.settings.fused
        self.settings.experts_rounded, self.settings.fused = True, False
        for i, name in enumerate(("austen", "kjv")):
            if i % self.plan.workers == self.rank:
                self.shared.numbers[0, 5 + i] = evaluate.bits_per_byte(self.model, self.data, name, every=4)
        self.settings.experts_rounded, self.settings.fused = rounded, fused
        self.barrier.wait()
        if self.rank == 0:
            austen, kjv = self.shared.numbers[0, 5:7].tolist()
            held_out = {"austen": round(austen, 4), "kjv": round(kjv, 4)}
            self._log(step=self.step, seconds=round(self.seconds, 1), held_out=held_out)
            if self.best is None or austen + kjv < self.best["bits"]:
                facts = {"step": self.step, "seed": self.plan.seed, "steps": self.plan.steps}
                self.best = {"bits": austen + kjv, **facts, "weights": self._weights()}
                _write(self.best, Path(self.plan.out) / "best.pt")

    def _weights(self):
        return {"parameters": self.shared.parameters.clone(), "bias": self.bias.clone()}

    def _save(self):
        state = {
            "step": self.step,
            "seconds": self.seconds,
            "weights": self._weights(),
            "moments": self.shared.moments.clone(),
            "best": self.best and {k: self.best[k] for k in ("bits", "step")},
        }
        _write(state, Path(self.plan.out) / "last.pt")

    def restore(self):
        path = Path(self.plan.out) / "last.pt"
        if not path.exists():
            return
        state = torch.load(path, weights_only=True)
        self.step, self.seconds, self.best = state["step"], state["seconds"], state["best"]
        self.bias.copy_(state["weights"]["bias"])
        for moe, bias in zip(self.model.moe_layers(), self.bias):
            moe.bias.copy_(bias)
        self.barrier.wait()
        if self.rank == 0:
            self.shared.parameters.copy_(state["weights"]["parameters"])
            self.shared.moments.copy_(state["moments"])
            _cut_log(Path(self.plan.out) / "log.jsonl", self.step)


def _cut_log(path, step):
    """Drops lines of steps that are computed again."""
    lines = [line for line in path.read_text().splitlines() if json.loads(line)["step"] <= step]
    path.write_text("".join(line + "\n" for line in lines))


def _write(state, path):
    """Under a temporary name first, so that a stop at any time leaves a whole file."""
    scratch = path.with_suffix(".tmp")
    with open(scratch, "wb") as f:
        torch.save(state, f)
        f.flush()
        os.fsync(f.fileno())
    scratch.rename(path)


def trained_model(data, weights):
    """The model of a saved `weights` entry."""
    model = Model(Geometry(vocab=data.tokenizer.vocabulary_size))
    with torch.no_grad():
        for name, value in views(weights["parameters"], model).items():
            model.get_parameter(name).copy_(value)
    for moe, bias in zip(model.moe_layers(), weights["bias"]):
        moe.bias.copy_(bias)
    return model


def _start(rank, plan, shared, barrier):
    torch.set_num_threads(1)
    Worker(rank, plan, shared, barrier).run()


def train(plan):
    Path(plan.out).mkdir(parents=True, exist_ok=True)
    model = Model(Geometry(vocab=Data(plan.data).tokenizer.vocabulary_size))
    context = mp.get_context("spawn")
    shared, barrier = Shared(model, plan.workers), context.Barrier(plan.workers)
    mp.spawn(_start, (plan, shared, barrier), nprocs=plan.workers)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True, help="folder of the log, last.pt and best.pt; a run there is resumed")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    train(Plan(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
