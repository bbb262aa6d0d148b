"""Measures an exported checkpoint in float32 and writes the figures of the model card."""

import argparse
import bz2
import json
import os
from pathlib import Path

import torch

from . import checkpoint, evaluate, verses
from .batches import Data
from .train import trained_model

TEXTS = ("austen", "kjv")
OPENINGS = (
    "It is a truth universally acknowledged, that a single man",
    "Emma Woodhouse, handsome, clever, and rich,",
    "In the beginning God created",
    "And it came to pass in those days, that",
)


def _bits(model, data, every=1):
    return {name: round(evaluate.bits_per_byte(model, data, name, every), 4) for name in TEXTS}


def _bzip2_bits(data):
    """Bits per byte that a file compressor needs for the same held-out text, for comparison."""
    result = {}
    for name in TEXTS:
        ids = [i for i in data.stream(f"{name}.held_out").tolist() if data.byte_lengths[i]]
        text = data.tokenizer.decode(ids).encode()
        result[name] = round(8 * len(bz2.compress(text)) / len(text), 2)
    return result


def _machine():
    """The processor as the system names it, and how many of it this process may use."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
    return f"{len(os.sched_getaffinity(0))} cores of {name}"


def _compared(stored, plain, data):
    """The stored model, the one before rounding and the one without routed experts, on every fourth window."""
    result = {"stored": _bits(stored, data, 4), "experts before MXFP4": _bits(plain, data, 4)}
    stored.settings.experts_off = True
    result["routed experts off"] = _bits(stored, data, 4)
    stored.settings.experts_off = False
    return result


def _samples(model, data):
    generator = torch.Generator().manual_seed(7)
    result = []
    for opening in OPENINGS:
        prompt = data.tokenizer.encode(opening)
        ids = evaluate.sample(model, prompt, 70, 0.7, generator)
        end = data.tokenizer.special["[EOS]"]
        ids = ids[: ids.index(end)] if end in ids else ids
        result.append({"prompt": opening, "temperature": 0.7, "text": data.tokenizer.decode(ids)})
    return result


def _recall(model, data):
    result = {}
    for question in verses.QUESTIONS[:2]:
        result[f"thinking off, {question}"] = evaluate.recalled(model, data, question)
    result[f"thinking on, {verses.QUESTIONS[0]}"] = evaluate.recalled(model, data, verses.QUESTIONS[0], "max")
    return result


def measure(data, folder, weights_file):
    """Everything the card says about quality."""
    state = torch.load(weights_file, weights_only=True)
    stored = checkpoint.load(folder)
    figures = {"step": state["step"], "seed": state.get("seed", 1)}
    figures["compared"] = _compared(stored, trained_model(data, state["weights"]), data)
    figures["bits_per_byte"] = _bits(stored, data)
    figures["bzip2"] = _bzip2_bits(data)
    figures["machine"] = _machine()
    recall = _recall(stored, data)
    figures["recall"] = {form: sum(answers.values()) for form, answers in recall.items()}
    always = [r for r in data.lessons if all(answers[r] for answers in recall.values())]
    figures["verses"] = {"taught": len(data.lessons), "shown": len(data.facts["shown"]), "always": always}
    figures["not_always"] = [r for r in data.lessons if r not in set(always)]
    figures["samples"] = _samples(stored, data)
    files = [f for f in Path(folder).iterdir() if f.suffix in (".safetensors", ".json", ".model")]
    figures["bytes"] = sum(f.stat().st_size for f in files)
    figures["parameters"] = sum(p.numel() for p in stored.parameters())
    figures["texts"] = data.facts["texts"]
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--model", required=True, help="folder of the exported checkpoint")
    parser.add_argument("--weights", required=True, help="the training state it was exported from")
    parser.add_argument("--out", required=True, help="file for the figures")
    args = parser.parse_args()
    figures = measure(Data(args.data), args.model, args.weights)
    Path(args.out).write_text(json.dumps(figures, indent=1) + "\n")
    print(json.dumps({k: figures[k] for k in ("step", "bits_per_byte", "compared", "recall", "bytes")}, indent=1))


if __name__ == "__main__":
    main()
