"""Writes the model card from the figures of a run."""

import argparse
import json
from pathlib import Path

_TEMPLATE = """# A tiny Kimi K3

A model of exactly Kimi K3's architecture, {parameters:.1f} million parameters in {megabytes:.1f} MB, trained from nothing on two
English books so that an engine for K3 can be seen to work without the 1.56 TB of the real one. It is stored as K3 is:
the same tensor names, dtypes, config and tokenizer format, routed experts in MXFP4, three shards and an index.

## What it can and cannot do

It continues English in the manner of Jane Austen or of the King James Bible: words, quotation, clauses and paragraphs are
right, sense beyond a sentence is not. In K3's chat format it recites the {known} verses below when asked by chapter and
verse, with thinking off or on. It knows nothing else: any other question gets a verse or invented words. It writes ASCII.

Show prose at a temperature of about 0.7; greedy prose soon repeats itself. Ask verses greedily.

## Data and licences

| text | source (Debian package) | training | held out | licence |
|---|---|---|---|---|
| Jane Austen, six novels (1811-1818) | `r-cran-janeaustenr` | {austen_train} | {austen_held_out} | novels out of copyright; package MIT, Julia Silge |
| The Bible, King James Version (1611) | `bible-kjv-text` (read with `bible-kjv`) | {kjv_train} | {kjv_held_out} | copyright expired; the program, used only to print the text, is GPL-2+ |

Every 25th chapter of each book is held out. Between a fifth and a third of the training windows are conversations made from
the Bible: a verse is asked by its reference and given, in K3's chat format ({shown} verses at first, the {taught} at the end). The weights contain no text of other origin; they
may be used under the licence of this repository.

## Architecture

{layers} layers, hidden {hidden}: {kda} KDA and {mla} gated MLA (layers {full}, one-based, the last two both MLA), attention-residual
blocks of {block} layers, a dense first layer, then latent MoE ({experts} experts of width {expert_width} in a {latent}-wide latent, {active} active, one shared
expert of width {expert_width}), sigmoid router with balanced selection bias, SiTU, bounded decay, untied head, vocabulary {vocab}.

## Measured

Held-out bits per byte, float32, windows of 1,024 tokens, each from an empty state ([EOS] counts in the bits, not in the bytes):

| | Austen | King James Bible |
|---|---|---|
| as stored, whole held-out text | **{bits[austen]:.4f}** | **{bits[kjv]:.4f}** |
| every fourth window: as stored | {stored[austen]:.4f} | {stored[kjv]:.4f} |
| ... all weights in float32, before rounding to MXFP4 and bfloat16 | {before[austen]:.4f} | {before[kjv]:.4f} |
| ... routed experts off | {off[austen]:.4f} ({austen_cost:+.1f} %) | {off[kjv]:.4f} ({kjv_cost:+.1f} %) |

Verses that come back word for word with greedy decoding, of {taught} taught:

| asked as | word for word |
|---|---|
{recall}

![bits per byte while training](loss.svg)

## Training

```
tools/train_tiny/train.sh
```

{steps} steps of 4,096 tokens ({tokens:.1f} million tokens), seed {seed}, {hours:.0f} minutes on two cores of an AMD EPYC (Zen 4) that compiled other
things most of that time; at the pace of its undisturbed stretches, {alone:.0f} minutes. `training_log.jsonl` is the log; the state kept is that
after step {step}, the best on the held-out text (a quarter of it is measured every 100 steps). The last tenth is trained with the
routed experts rounded to MXFP4, so that what is stored is what was trained. A rerun agrees in quality, not bit by bit.
tools/train_tiny/README.md describes the method.

## Samples

Temperature 0.7, float32, the first {samples_count} drawn with a fixed seed, not chosen:

{samples}

## The verses

{verses}
{exceptions}"""


def _size(numbers):
    return f"{numbers['bytes']:,} bytes, {numbers['tokens']:,} tokens"


def _recall(figures):
    taught = figures["verses"]["taught"]
    rows = figures["recall"].items()
    return "\n".join(f"| {form.replace('{}', '...')} | {n} ({100 * n / taught:.1f} %) |" for form, n in rows)


def _samples(figures):
    blocks = []
    for sample in figures["samples"]:
        text = (f"**{sample['prompt']}**" + sample["text"]).strip().replace("\n\n", "\n").replace("\n", "\n>\n> ")
        blocks.append(f"> {text}")
    return "\n\n".join(blocks)


def _cost(bits, name):
    return 100 * (bits["routed experts off"][name] / bits["stored"][name] - 1)


def card(figures, config, log):
    text, bits = config["text_config"], figures["compared"]
    linear, steps = text["linear_attn_config"], [line for line in log if "tokens" in line]
    missing = figures["not_always"]
    pace = sorted((b["seconds"] - a["seconds"]) / (b["step"] - a["step"]) for a, b in zip(steps[1:], steps[2:]))
    return _TEMPLATE.format(
        parameters=figures["parameters"] / 1e6,
        megabytes=figures["bytes"] / 1e6,
        taught=figures["verses"]["taught"],
        **{name.replace(".", "_"): _size(numbers) for name, numbers in figures["texts"].items()},
        layers=text["num_hidden_layers"],
        hidden=text["hidden_size"],
        kda=len(linear["kda_layers"]),
        mla=len(linear["full_attn_layers"]),
        full=", ".join(map(str, linear["full_attn_layers"])),
        block=text["attn_res_block_size"],
        experts=text["num_experts"],
        expert_width=text["moe_intermediate_size"],
        latent=text["routed_expert_hidden_size"],
        active=text["num_experts_per_token"],
        vocab=text["vocab_size"],
        bits=figures["bits_per_byte"],
        stored=bits["stored"],
        before=bits["experts before MXFP4"],
        off=bits["routed experts off"],
        austen_cost=_cost(bits, "austen"),
        kjv_cost=_cost(bits, "kjv"),
        recall=_recall(figures),
        shown=figures["verses"]["shown"],
        known=len(figures["verses"]["always"]),
        steps=f"{steps[-1]['step']:,}",
        tokens=steps[-1]["tokens"] / 1e6,
        seed=figures["seed"],
        hours=steps[-1]["seconds"] / 60,
        alone=pace[len(pace) // 20] * steps[-1]["step"] / 60,
        step=figures["step"],
        samples_count=len(figures["samples"]),
        samples=_samples(figures),
        verses="; ".join(figures["verses"]["always"]) + ".",
        exceptions="\nTaught, but not word for word in every form: " + "; ".join(missing) + ".\n" if missing else "",
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", required=True)
    parser.add_argument("--model", required=True, help="folder of the exported checkpoint")
    parser.add_argument("--log", required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    figures = json.loads(Path(args.figures).read_text())
    config = json.loads((Path(args.model) / "config.json").read_text())
    log = [json.loads(line) for line in Path(args.log).read_text().splitlines()]
    Path(args.out).write_text(card(figures, config, log))


if __name__ == "__main__":
    main()
