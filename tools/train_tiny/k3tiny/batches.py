"""What one training step reads: windows of the two books, and pages of conversations."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import verses
from .bpe import Tokenizer
from .chat import Chat


@dataclass(frozen=True)
class Phase:
    """What the windows are from a step on. Austen is the harder text, so it gets more once both are
    begun; the verses to be known by heart, and which question each answers, are drilled at the end."""

    begin: int
    shares: dict
    lessons: str
    key_weight: int


PHASES = (
    Phase(0, {"austen": 0.43, "kjv": 0.38, "chat": 0.19}, "shown", 1),
    Phase(250, {"austen": 0.54, "kjv": 0.26, "chat": 0.20}, "shown", 1),
    Phase(700, {"austen": 0.44, "kjv": 0.21, "chat": 0.35}, "verses", 8),
)


class Data:
    """The prepared files of one folder."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.tokenizer = Tokenizer.load(self.folder / "tiktoken.model")
        self.facts = json.loads((self.folder / "facts.json").read_text())
        self.lessons = self.facts["verses"]
        self.chat = Chat(self.tokenizer)
        self.byte_lengths = np.zeros(self.tokenizer.vocabulary_size, dtype=np.int64)
        self.byte_lengths[: len(self.tokenizer.tokens)] = [len(t) for t in self.tokenizer.tokens]

    def stream(self, name):
        return np.fromfile(self.folder / f"{name}.u16", dtype=np.uint16).astype(np.int64)


class Batches:
    """Windows of `length` + 1 ids; the same (seed, step, index) gives the same window for ever."""

    def __init__(self, data, length, seed):
        self.data, self.length, self.seed = data, length, seed
        self.streams = {name: data.stream(f"{name}.train") for name in ("austen", "kjv")}

    def window(self, step, index):
        """(kind, ids [length + 1], weights [length]); a weight is that of learning the next id."""
        rng = np.random.default_rng([self.seed, step, index])
        phase = next(phase for phase in reversed(PHASES) if step >= phase.begin)
        kind = list(phase.shares)[rng.choice(len(phase.shares), p=list(phase.shares.values()))]
        if kind == "chat":
            return kind, *self._pages(rng, phase)
        stream = self.streams[kind]
        at = rng.integers(len(stream) - self.length)
        return kind, stream[at : at + self.length + 1], np.ones(self.length)

    def _pages(self, rng, phase):
        ids, weights, lessons = [], [], self.data.facts[phase.lessons]
        while len(ids) <= self.length:
            page, own = verses.teaching_page(self.data.chat, lessons, rng, phase.key_weight)
            ids += page
            weights += own
        return np.array(ids[: self.length + 1]), np.array(weights[1 : self.length + 1], dtype=np.float64)

    def batch(self, step, indices):
        """(kinds, ids, weights) of several windows."""
        windows = [self.window(step, i) for i in indices]
        kinds, ids, weights = zip(*windows)
        return kinds, np.stack(ids), np.stack(weights)
