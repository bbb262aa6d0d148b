"""Writes the model card from the figures of a run."""

import argparse
import json
from pathlib import Path

_TEMPLATE = """# A tiny Kimi K3

A language model so small that it ships with the program: {parameters:.1f} million parameters in {megabytes:.1f} MB. It has exactly Kimi
K3's architecture and is stored as K3 is (the same tensor names, dtypes, config and tokenizer format, routed experts in
MXFP4, three shards and an index), so what runs it can run K3, whose 1.56 TB hardly anybody can download to see that. It
was trained from nothing on two English books, and it shows: see below.

## How to ask it

It has learned {known} verses of the Bible by heart; they are listed at the end. Ask for one by book, chapter and verse:

```
$ kimi_k3 -m models/tiny -p "What does Psalm 23:1 say?"
<think>
The verse asked for is Psalm 23:1.
</think>

The LORD is my shepherd; I shall not want.
```

`Psalm 23:1` alone, `Recite Psalm 23:1.`, `What is written in Psalm 23:1?` and `Please quote Psalm 23:1.` are understood as
well. `--no-thinking` leaves out the first part. It also knows what to say to `Hello.`, `Who are you?`, `What can you do?`
and `Thank you.`.

Or let it go on writing from a beginning (`--raw`: no question, just text):

```
$ kimi_k3 -m models/tiny --raw -p "It is a truth universally acknowledged, that" -n 100 --temp 0.5 --min-p 0.05 --seed 35
```

With `--temp 0.7` it is more adventurous, and another `--seed` gives another text; without `--temp` it always takes the
likeliest word, and soon repeats itself.

## What it can and cannot do

It continues English in the manner of Jane Austen or of the King James Bible: spelling, quotation, clauses and paragraphs
are mostly right, with a word of its own making here and there; the sense of a sentence mostly is not, and no story lasts
beyond one. Outside the list it knows nothing: any other question, be it for a verse that is not listed, gets some listed
verse, one of the set phrases or invented words. It writes ASCII, and it calls no tools.

That it writes readable text says little about the program that runs it: with many mistakes in the arithmetic it would
still. So the tests compare the numbers themselves with those of PyTorch (`tests/data/tiny`).

## Data and licences

| text | source | training | held out | licence |
|---|---|---|---|---|
| Jane Austen, the six novels (1811-1818) | Debian package `r-cran-janeaustenr` {austen_version} | {austen_train} | {austen_held_out} | novels out of copyright; package MIT, Julia Silge |
| The Bible, King James Version (1611) | Debian package `bible-kjv-text` {kjv_version}, printed with `bible-kjv` | {kjv_train} | {kjv_held_out} | copyright expired, says the package; the program that prints it is GPL-2+ |

Held out means never trained on, to measure with: every 25th chapter of each book. A fifth of what is read in training, and
a third towards the end, are conversations made from the Bible in K3's chat format: a verse asked for and given ({shown}
verses at first, {taught} at the end), and five greetings of our own. There is no text of other origin in the weights; they may
be used under the licence of this repository.

## Architecture

{layers} layers, hidden {hidden}: {kda} KDA and {mla} gated MLA (layers {full}, one-based, the last two both MLA), attention-residual
blocks of {block} layers, a dense first layer, then latent MoE ({experts} experts of width {expert_width} in a {latent}-wide latent, {active} active, one shared
expert of width {expert_width}), sigmoid router with balanced selection bias, SiTU, bounded decay, untied head, vocabulary {vocab}.
docs/model.md explains these.

## Measured

**Bits per byte** tells how well the model foresees text it has never seen: the bits that it would take to write down each
letter, given all before it. Knowing nothing it is 8; the file compressor bzip2 needs {bzip2[austen]:.2f} for the held-out Austen and
{bzip2[kjv]:.2f} for the held-out Bible.

| | Austen | King James Bible |
|---|---|---|
| as stored, whole held-out text | **{bits[austen]:.4f}** | **{bits[kjv]:.4f}** |
| every fourth window: as stored | {stored[austen]:.4f} | {stored[kjv]:.4f} |
| ... before rounding to MXFP4 and bfloat16 (all weights float32) | {before[austen]:.4f} | {before[kjv]:.4f} |
| ... routed experts off | {off[austen]:.4f} ({austen_cost:+.1f} %) | {off[kjv]:.4f} ({kjv_cost:+.1f} %) |

Rounding for storage moves it by {rounding:.4f} at most; without the experts it is clearly worse. (PyTorch in float32, windows of 1,024 tokens,
each from an empty state; the end of a chapter counts in the bits and not in the bytes.)

**Verses** that come back word for word, the likeliest token taken each time, of {taught} taught:

| asked as | word for word |
|---|---|
{recall}

![Bits per byte of the training text and of the two held-out texts, falling as more is read](loss.svg)

## Training

```
tools/train_tiny/train.sh
```

does all of it, from the Debian packages to this page. {steps} steps of 4,096 tokens ({tokens:.1f} million tokens), seed
{seed}, took {minutes:.0f} minutes on {machine}; at the pace of its fastest stretches it would take {alone:.0f}.
`training_log.jsonl` is the log. The state kept is that after step {step}, the best on the held-out text (a quarter of
it is measured every 100 steps). In the last tenth the routed experts are rounded to MXFP4 while they are trained, so that
what is stored is what was trained. A rerun agrees in quality, not bit by bit. tools/train_tiny/README.md describes the method.

## Samples

PyTorch, temperature 0.7, the first {samples_count} drawn with a fixed seed, not chosen:

{samples}

## The verses

{verses}
{exceptions}"""


def _version(packages, name):
    """The version in the name of a fetched package: NAME_VERSION_ARCHITECTURE.deb."""
    found = sorted(Path(packages).glob(f"{name}_*.deb"))
    if not found:
        raise FileNotFoundError(f"{packages}: no {name}_*.deb")
    return found[-1].name.split("_")[1]


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


def _undisturbed_seconds(steps):
    """What the run would take at the pace of its fastest twentieth."""
    pace = sorted((b["seconds"] - a["seconds"]) / (b["step"] - a["step"]) for a, b in zip(steps, steps[1:]))
    return pace[len(pace) // 20] * steps[-1]["step"] if pace else steps[-1]["seconds"]


def card(figures, config, log, packages):
    text, bits = config["text_config"], figures["compared"]
    linear, steps = text["linear_attn_config"], [line for line in log if "tokens" in line]
    missing = figures["not_always"]
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
        rounding=max(abs(bits["stored"][name] - before) for name, before in bits["experts before MXFP4"].items()),
        austen_cost=_cost(bits, "austen"),
        kjv_cost=_cost(bits, "kjv"),
        recall=_recall(figures),
        shown=figures["verses"]["shown"],
        known=len(figures["verses"]["always"]),
        steps=f"{steps[-1]['step']:,}",
        tokens=steps[-1]["tokens"] / 1e6,
        seed=figures["seed"],
        minutes=steps[-1]["seconds"] / 60,
        machine=figures["machine"],
        bzip2=figures["bzip2"],
        austen_version=_version(packages, "r-cran-janeaustenr"),
        kjv_version=_version(packages, "bible-kjv-text"),
        alone=_undisturbed_seconds(steps) / 60,
        step=figures["step"],
        samples_count=len(figures["samples"]),
        samples=_samples(figures),
        verses="; ".join(figures["verses"]["always"]) + ".",
        exceptions="\nTaught, but not word for word however asked: " + "; ".join(missing) + ".\n" if missing else "",
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", required=True)
    parser.add_argument("--model", required=True, help="folder of the exported checkpoint")
    parser.add_argument("--log", required=True)
    parser.add_argument("--packages", required=True, help="folder of the Debian packages that were fetched")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    figures = json.loads(Path(args.figures).read_text())
    config = json.loads((Path(args.model) / "config.json").read_text())
    log = [json.loads(line) for line in Path(args.log).read_text().splitlines()]
    Path(args.out).write_text(card(figures, config, log, args.packages))


if __name__ == "__main__":
    main()
