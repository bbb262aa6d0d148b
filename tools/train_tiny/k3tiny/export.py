"""Writes the trained model as a checkpoint in the published format."""

import argparse

import torch

from . import checkpoint
from .batches import Data
from .train import trained_model


def export(data, weights_file, out):
    state = torch.load(weights_file, weights_only=True)
    checkpoint.save(trained_model(data, state["weights"]), out, data.tokenizer)
    return state["step"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--weights", required=True, help="best.pt or last.pt of a training run")
    parser.add_argument("--out", required=True, help="folder of the checkpoint")
    args = parser.parse_args()
    step = export(Data(args.data), args.weights, args.out)
    print(f"the state after step {step} is in {args.out}")


if __name__ == "__main__":
    main()
