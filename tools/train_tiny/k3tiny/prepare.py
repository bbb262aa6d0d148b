"""Makes the training data: clean texts, the vocabulary, token streams, and the verses to teach."""

import argparse
import json
from pathlib import Path

import numpy as np

from . import corpus, verses
from .bpe import Tokenizer, train_vocabulary
from .chat import Chat

RANKS = 2048


def _join(documents, tokenizer):
    """One stream of ids; [EOS] stands before the first document and after each."""
    end = tokenizer.special["[EOS]"]
    ids = [end]
    for text in documents:
        ids += tokenizer.encode(text) + [end]
    return np.array(ids, dtype=np.uint16)


def _split(chapters):
    train = [c for i, c in enumerate(chapters) if not corpus.is_held_out(i)]
    held_out = [c for i, c in enumerate(chapters) if corpus.is_held_out(i)]
    return train, held_out


def _vocabulary(train_texts, lessons):
    """Trained on the books and on the words of the conversations, these repeated enough to be learned."""
    questions = " ".join(lessons)
    template = "message role=\"user\" role=\"assistant\" role=\"system\" type=\"thinking-effort\" think response"
    pages = [(questions, 20), (template, 2000), (Chat.effort_text("max"), 2000)]
    return Tokenizer(train_vocabulary([(t, 1) for t in train_texts] + pages, RANKS))


def prepare(packages, out):
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    all_verses = corpus.bible_verses(packages)
    bible = corpus.bible_chapters(all_verses)
    bible_train, bible_held = _split(bible)
    austen_train, austen_held = _split(corpus.austen_chapters(packages))
    lessons = verses.shown(all_verses, {key for key, _ in bible_held})
    texts = {
        "austen": {"train": austen_train, "held_out": austen_held},
        "kjv": {"train": [t for _, t in bible_train], "held_out": [t for _, t in bible_held]},
    }
    tokenizer = _vocabulary(austen_train + texts["kjv"]["train"], lessons)
    (out / "tiktoken.model").write_bytes(tokenizer.rank_file())
    facts = {"shown": lessons, "verses": verses.by_heart(lessons), "texts": {}}
    for name, parts in texts.items():
        for part, documents in parts.items():
            ids = _join(documents, tokenizer)
            ids.tofile(out / f"{name}.{part}.u16")
            size = sum(len(t.encode()) for t in documents)
            facts["texts"][f"{name}.{part}"] = {"documents": len(documents), "bytes": size, "tokens": len(ids)}
    (out / "facts.json").write_text(json.dumps(facts, indent=1))
    return facts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", required=True, help="folder into which the Debian packages were unpacked")
    parser.add_argument("--out", required=True, help="folder for the data")
    args = parser.parse_args()
    facts = prepare(args.packages, args.out)
    for name, numbers in facts["texts"].items():
        print(name, numbers)
    print(len(facts["verses"]), "verses to know,", len(facts["shown"]), "shown")


if __name__ == "__main__":
    main()
