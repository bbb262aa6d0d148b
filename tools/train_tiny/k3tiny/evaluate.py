"""Measures: held-out bits per byte of each text, and verses recalled."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from . import verses

WINDOW = 1024


def windows(stream, length=WINDOW):
    """The stream cut into windows that each predict `length` ids (the last one fewer), every id but the
    first exactly once; each starts from an empty state with the id before its first target."""
    return [stream[at : at + length + 1] for at in range(0, len(stream) - 1, length)]


@torch.no_grad()
def nats(model, pieces, batch=4):
    """Sum of the losses over windows; equal lengths are computed together."""
    total, at = 0.0, 0
    while at < len(pieces):
        group = [pieces[at]]
        while len(group) < batch and at + len(group) < len(pieces) and len(pieces[at + len(group)]) == len(group[0]):
            group.append(pieces[at + len(group)])
        ids = torch.from_numpy(np.stack(group))
        logits = model(ids[:, :-1])
        total += F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="sum").item()
        at += len(group)
    return total


def bits_per_byte(model, data, name, every=1):
    """Bits per byte of text `name` (held-out part), over every `every`-th window. Bytes are those of the
    predicted ids; [EOS] counts in the bits, not in the bytes."""
    pieces = windows(data.stream(f"{name}.held_out"))[::every]
    size = sum(int(data.byte_lengths[piece[1:]].sum()) for piece in pieces)
    return nats(model, pieces) / math.log(2) / size


@torch.no_grad()
def greedy(model, prompt, count, stop=None):
    """(ids, gaps): up to `count` greedy ids, `stop` included if it comes, and the distance of the best
    logit to the second at each. Every id costs a whole forward pass."""
    ids, gaps = list(prompt), []
    while len(gaps) < count and not (gaps and ids[-1] == stop):
        best = model(torch.tensor([ids]))[0, -1].topk(2)
        ids.append(int(best.indices[0]))
        gaps.append(float(best.values[0] - best.values[1]))
    return ids[len(prompt) :], gaps


@torch.no_grad()
def sample(model, prompt, count, temperature, generator):
    """`count` ids drawn at a temperature."""
    ids = list(prompt)
    for _ in range(count):
        p = torch.softmax(model(torch.tensor([ids]))[0, -1] / temperature, -1)
        ids.append(int(torch.multinomial(p, 1, generator=generator)))
    return ids[len(prompt) :]


@torch.no_grad()
def is_greedy(model, prompts, answers):
    """For each prompt whether greedy decoding gives exactly the answer.

    It does if and only if every id of the answer is the most likely one after the ids before it,
    so one forward pass over both decides."""
    results = [False] * len(prompts)
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]) + len(answers[i]))
    for at in range(0, len(order), 16):
        group = order[at : at + 16]
        rows = [prompts[i] + answers[i] for i in group]
        longest = max(map(len, rows))
        best = model(torch.tensor([row + [0] * (longest - len(row)) for row in rows])).argmax(-1)
        for i, row, chosen in zip(group, rows, best.tolist()):
            begin = len(prompts[i])
            results[i] = chosen[begin - 1 : len(row) - 1] == row[begin:]
    return results


def recalled(model, data, question, effort=None):
    """{reference: whether its verse comes back word for word, and the turn ends after it}."""
    lessons, chat = data.lessons, data.chat
    prompts = [chat.prompt(question.format(r), effort) for r in lessons]
    answers = [chat.answer(text, verses.thought(r) if effort else None) for r, text in lessons.items()]
    return dict(zip(lessons, is_greedy(model, prompts, answers)))
