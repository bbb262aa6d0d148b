"""Compares the reference with golden folders: check.py [--f32] CASE_DIR..."""

import argparse
import json
import os
import sys

import numpy as np

from checkpoint import Checkpoint
from model import Model, Trace, greedy


def relative_l2(found, wanted):
    found, wanted = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    return float(np.linalg.norm(found - wanted) / max(np.linalg.norm(wanted), 1e-300))


class Case:
    """One golden folder: its golden.json and the raw files that this lists."""

    def __init__(self, folder):
        self.folder = folder
        with open(os.path.join(folder, "golden.json"), encoding="utf-8") as file:
            self.golden = json.load(file)
        self.name = self.golden["case"]
        self.prompt = self.golden["prompt_ids"]
        self.greedy_ids = self.golden["greedy_ids"]

    def checkpoint(self):
        return Checkpoint(os.path.join(self.folder, self.golden["checkpoint"]))

    def has(self, name):
        return name in self.golden["files"]

    def read(self, name):
        entry = self.golden["files"][name]
        dtype = {"f32": "<f4", "i32": "<i4"}[entry["dtype"]]
        return np.fromfile(os.path.join(self.folder, name), dtype).reshape(entry["shape"])


def compare(case, model):
    """{what: relative L2 error}; errors of whole numbers count as infinite.

    A case with prompt_logits_f64.f32 was computed in float32 otherwise, so that its other files
    are only as exact as that.
    """
    trace = Trace()
    count = len(case.greedy_ids)
    logits, ids, rows, state, _ = greedy(model, case.prompt, count, trace)
    wanted = "prompt_logits_f64.f32" if case.has("prompt_logits_f64.f32") else "prompt_logits.f32"
    result = {"prompt_logits": relative_l2(logits[case.golden["logit_positions"]],
                                           case.read(wanted)),
              "greedy_logits": relative_l2(rows, case.read("greedy_logits.f32")),
              "greedy_ids": 0.0 if ids == case.greedy_ids else np.inf}
    if case.has("router_ids.i32"):
        found = np.array([np.sort(ids, axis=1) for ids in trace.router_ids.values()])
        same = np.array_equal(found, case.read("router_ids.i32"))
        result["router_ids"] = 0.0 if same else np.inf
    if case.has("trace_last.f32"):
        last = np.array(trace.layers)[:, :, -1]
        result["trace"] = relative_l2(last, case.read("trace_last.f32"))
        result["final"] = relative_l2(trace.final[:, -1], case.read("final_last.f32"))
    for layer in sorted(state.delta):
        name = f"kda_state_layer{layer}.f32"
        if case.has(name):
            result[name] = relative_l2(state.delta[layer], case.read(name))
            conv = np.array([state.conv[layer, which] for which in "qkv"])
            name = f"kda_conv_layer{layer}.f32"
            result[name] = relative_l2(conv, case.read(name))
    return result


def tolerance(case, what):
    in_f32 = case.has("prompt_logits_f64.f32") and what != "prompt_logits"
    return 3e-6 if in_f32 else 1e-6


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--f32", action="store_true", help="compute in float32")
    parser.add_argument("--tolerance", type=float, help="instead of 1e-6, and 3e-6 for files "
                        "that were computed in float32")
    arguments = parser.parse_args()
    wrong = 0
    for folder in arguments.folders:
        case = Case(folder)
        model = Model(case.checkpoint(), np.float32 if arguments.f32 else np.float64)
        for what, error in compare(case, model).items():
            ok = error <= (arguments.tolerance or tolerance(case, what))
            wrong += not ok
            print(f"{case.name:16} {what:24} {error:9.2e} {'' if ok else 'WRONG'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
