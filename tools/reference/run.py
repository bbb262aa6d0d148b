"""Runs a checkpoint folder: greedy ids, logits and, on request, every layer's hidden vectors.

    run.py -m DIR --token-ids 1,2,3 -n 8 --print-ids --logits out.npy --trace trace.npz
"""

import argparse
import sys

import numpy as np

from checkpoint import Checkpoint
from mistakes import MISTAKES
from model import Model, Trace, greedy


def save_trace(path, trace, state):
    """trace [layer][5][position][hidden] as in trace_last.f32, final [2][position][hidden],
    router_ids_L [position][k] best first, delta_L and conv_L the state after the prompt."""
    arrays = {"trace": np.array(trace.layers), "final": trace.final}
    for layer, ids in trace.router_ids.items():
        arrays[f"router_ids_{layer}"] = ids
        arrays[f"router_weights_{layer}"] = trace.router_weights[layer]
    for layer, delta in state.delta.items():
        arrays[f"delta_{layer}"] = delta
        arrays[f"conv_{layer}"] = np.array([state.conv[layer, which] for which in "qkv"])
    np.savez(path, **arrays)


def list_mistakes():
    for name, cls in MISTAKES.items():
        print(f"{name:28} {cls.__doc__}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-m", "--model", help="checkpoint folder")
    parser.add_argument("--token-ids", help="the prompt, ids separated by commas")
    parser.add_argument("-n", type=int, default=0, help="tokens to generate (default 0)")
    parser.add_argument("--print-ids", action="store_true", help="print the generated ids")
    parser.add_argument("--logits", metavar="FILE.npy",
                        help="f32 [rows, vocab], every prompt row")
    parser.add_argument("--trace", metavar="FILE.npz", help="hidden vectors of the prompt")
    parser.add_argument("--f32", action="store_true", help="compute in float32")
    parser.add_argument("--mistake", choices=sorted(MISTAKES), metavar="NAME",
                        help="compute with one mistake put in")
    parser.add_argument("--list-mistakes", action="store_true")
    arguments = parser.parse_args()
    if arguments.list_mistakes:
        list_mistakes()
        return 0
    if not arguments.model or not arguments.token_ids:
        parser.error("-m and --token-ids are needed")
    prompt = [int(token) for token in arguments.token_ids.split(",")]
    try:
        checkpoint = Checkpoint(arguments.model)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    bad = [token for token in prompt if not 0 <= token < checkpoint.config.vocab]
    if bad:
        parser.error(f"--token-ids: {bad[0]} is outside the vocabulary")
    kind = MISTAKES[arguments.mistake] if arguments.mistake else Model
    model = kind(checkpoint, np.float32 if arguments.f32 else np.float64)
    trace = Trace()
    logits, ids, _, state, _ = greedy(model, prompt, arguments.n, trace)
    if arguments.logits:
        np.save(arguments.logits, logits.astype(np.float32))
    if arguments.trace:
        save_trace(arguments.trace, trace, state)
    if arguments.print_ids:
        print(*ids)
    return 0


if __name__ == "__main__":
    sys.exit(main())
