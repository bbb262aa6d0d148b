"""Writes what an engine is compared with: logits, greedy ids and chat answers of an exported checkpoint."""

import argparse
import hashlib
import json
import math
from pathlib import Path

import numpy as np
import torch

from . import checkpoint, evaluate, verses
from .batches import Data
from .measure import OPENINGS, TEXTS

EXCERPT = 384  # ids of each held-out text
EVERY = 8  # of its positions has its logits stored
SMALLEST_GAP = 2e-3  # between the two best logits, for greedy ids to be asked of an engine
QUESTIONS = 20
GREEDY = 48


def _chapter(data, name):
    """The second held-out chapter."""
    stream = data.stream(f"{name}.held_out")
    ends = np.flatnonzero(stream == data.tokenizer.special["[EOS]"])
    return stream[ends[1] + 1 : ends[2]]


def _excerpt(data, name):
    """Its beginning."""
    return _chapter(data, name)[:EXCERPT].tolist()


def _whole_chapter(model, data, name, out):
    ids = _chapter(data, name)
    (out / f"{name}.txt").write_text(data.tokenizer.decode(ids.tolist()))
    nats = evaluate.nats(model, evaluate.windows(ids))
    size = int(data.byte_lengths[ids[1:]].sum())
    return {
        "name": name,
        "text_file": f"{name}.txt",
        "ids": len(ids),
        "window": evaluate.WINDOW,
        "nats": nats,
        "bytes": size,
        "bits_per_byte": nats / math.log(2) / size,
    }


@torch.no_grad()
def _logits(model, data, name, out):
    ids = _excerpt(data, name)
    logits = model(torch.tensor([ids]))[0]
    positions = list(range(EVERY - 1, EXCERPT, EVERY))
    logits[positions].numpy().astype("<f4").tofile(out / f"{name}_logits.f32")
    nats = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(ids[1:]), reduction="sum").item()
    size = int(data.byte_lengths[ids[1:]].sum())
    return {
        "name": name,
        "ids": ids,
        "logit_positions": positions,
        "logits_file": f"{name}_logits.f32",
        "greatest_ids": logits.argmax(-1).tolist(),
        "nats": nats,
        "bytes": size,
        "bits_per_byte": nats / math.log(2) / size,
    }


def _greedy(model, data, name, prompt, stop=None):
    """Greedy ids, cut before the first choice that is too close to call."""
    ids, gaps = evaluate.greedy(model, prompt, GREEDY, stop)
    close = next((i for i, gap in enumerate(gaps) if gap < SMALLEST_GAP), len(gaps))
    return {"name": name, "prompt_ids": prompt, "ids": ids[:close], "gaps": [round(g, 5) for g in gaps[:close]]}


def _greedy_cases(model, data):
    cases = [_greedy(model, data, text, data.tokenizer.encode(text)) for text in OPENINGS]
    for name in TEXTS:
        cases.append(_greedy(model, data, f"held-out {name}", _excerpt(data, name)[:100]))
    stop = data.tokenizer.special["<|end_of_msg|>"]
    for effort in (None, "max", "low"):
        prompt = data.chat.prompt("What does John 11:35 say?", effort)
        cases.append(_greedy(model, data, f"chat, thinking {effort or 'off'}", prompt, stop))
    return cases


def _questions(model, data):
    """Verses that come back word for word in every form, spread over the list, asked in turn in each form."""
    cases = []
    for effort in (None, "max"):
        good = evaluate.recalled(model, data, verses.QUESTIONS[0], effort)
        known = [r for r, right in good.items() if right]
        for reference in known[:: max(1, len(known) // (QUESTIONS // 2))][: QUESTIONS // 2]:
            question, text = verses.QUESTIONS[0].format(reference), data.lessons[reference]
            thought = verses.thought(reference) if effort else None
            case = {"reference": reference, "question": question, "thinking_effort": effort}
            case["prompt_ids"] = data.chat.prompt(question, effort)
            case["answer_ids"] = data.chat.answer(text, thought)
            cases.append({**case, "thought": thought, "text": text})
    return cases


def _verses(model, data):
    """Every verse taught, and whether it comes back word for word with thinking off."""
    known = evaluate.recalled(model, data, verses.QUESTIONS[0])
    return [{"reference": r, "text": text, "word_for_word": known[r]} for r, text in data.lessons.items()]


def write(data, folder, out):
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    model = checkpoint.load(folder)
    shards = sorted(Path(folder).glob("*.safetensors"))
    reference = {
        "weights_sha256": {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in shards},
        "computed_with": f"PyTorch {torch.__version__.split('+')[0]}, float32",
        "vocabulary_size": model.g.vocab,
        "excerpts": [_logits(model, data, name, out) for name in TEXTS],
        "chapters": [_whole_chapter(model, data, name, out) for name in TEXTS],
        "greedy": _greedy_cases(model, data),
        "questions": _questions(model, data),
        "verses": _verses(model, data),
    }
    (out / "reference.json").write_text(json.dumps(reference) + "\n")
    return reference


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--model", required=True, help="folder of the exported checkpoint")
    parser.add_argument("--out", required=True, help="folder for reference.json and the logits")
    args = parser.parse_args()
    result = write(Data(args.data), args.model, args.out)
    print(len(result["greedy"]), "greedy cases of", [len(c["ids"]) for c in result["greedy"]], "ids")
    print(len(result["questions"]), "questions")


if __name__ == "__main__":
    main()
