"""K3's tokenizer for ASCII text: its split, byte-pair encoding by rank, and the training of a vocabulary.

The split is K3's pattern (docs/text.md) with its character classes reduced to ASCII, where they
are [A-Z], [a-z] and [0-9]; other text is refused, since the books have none.
"""

import base64
import heapq
import re
from collections import Counter, defaultdict

_SPLIT = re.compile(
    r"[^\r\nA-Za-z0-9]?[A-Z]*[a-z]+(?:'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))?"
    r"|[^\r\nA-Za-z0-9]?[A-Z]+[a-z]*(?:'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))?"
    r"|[0-9]{1,3}"
    r"| ?[^\sA-Za-z0-9]+[\r\n]*"
    r"|\s*[\r\n]+"
    r"|\s+(?!\S)"
    r"|\s+",
    re.ASCII,
)

# K3's named control tokens by their distance from the end of the ranks; the other ids of the
# 256 are reserved. The flag is the "special" of tokenizer_config.json.
SPECIAL_COUNT = 256
SPECIALS = {
    0: ("[BOS]", True),
    1: ("[EOS]", True),
    2: ("<|end_of_msg|>", True),
    3: ("<|open|>", False),
    4: ("<|close|>", False),
    5: ("<|sep|>", False),
    6: ("[start_header_id]", True),
    7: ("[end_header_id]", True),
    9: ("[EOT]", True),
    18: ("<|media_begin|>", True),
    19: ("<|media_content|>", True),
    20: ("<|media_end|>", True),
    21: ("<|media_pad|>", True),
    65: ("<osagent_mode>", True),
    254: ("[UNK]", True),
    255: ("[PAD]", True),
}


def split(text):
    """The pieces that are encoded one by one; together they are the text."""
    if not text.isascii():
        raise ValueError("the split is for ASCII text")
    return _SPLIT.findall(text)


def byte_order():
    """The 256 single bytes in the order of ranks 0 to 255: printable ones first, as in GPT-2."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return printable + [b for b in range(256) if b not in set(printable)]


def train_vocabulary(texts, size):
    """`size` tokens (bytes objects) in rank order: the bytes, then the best merges, one by one.

    `texts` is a list of (text, weight)."""
    counts = Counter()
    for text, weight in texts:
        for piece, n in Counter(split(text)).items():
            counts[piece.encode()] += n * weight
    words = [[bytes([b]) for b in piece] for piece in counts]
    weights = list(counts.values())
    pair_counts, where = Counter(), defaultdict(set)
    for i, word in enumerate(words):
        for pair in zip(word, word[1:]):
            pair_counts[pair] += weights[i]
            where[pair].add(i)
    heap = [(-n, pair) for pair, n in pair_counts.items()]
    heapq.heapify(heap)
    tokens = [bytes([b]) for b in byte_order()]
    known = set(tokens)
    while len(tokens) < size:
        negative, pair = heapq.heappop(heap)
        if -negative != pair_counts[pair]:
            continue
        merged = pair[0] + pair[1]
        if merged not in known:
            known.add(merged)
            tokens.append(merged)
        for changed in _merge_everywhere(pair, words, weights, pair_counts, where):
            if pair_counts[changed] > 0:
                heapq.heappush(heap, (-pair_counts[changed], changed))
    return tokens


def _merge_everywhere(pair, words, weights, pair_counts, where):
    changed = set()
    for i in sorted(where.pop(pair)):
        word, out, at = words[i], [], 0
        while at < len(word):
            if at + 1 < len(word) and (word[at], word[at + 1]) == pair:
                out.append(word[at] + word[at + 1])
                at += 2
            else:
                out.append(word[at])
                at += 1
        for old in zip(word, word[1:]):
            pair_counts[old] -= weights[i]
            changed.add(old)
        for new in zip(out, out[1:]):
            pair_counts[new] += weights[i]
            where[new].add(i)
            changed.add(new)
        words[i] = out
    del pair_counts[pair]
    changed.discard(pair)
    return sorted(changed)


class Tokenizer:
    """Text to ids and back. The control ids follow the ranks, at K3's distances."""

    def __init__(self, tokens):
        self.tokens = tokens
        self.ranks = {token: rank for rank, token in enumerate(tokens)}
        self.special = {name: len(tokens) + at for at, (name, _) in SPECIALS.items()}
        self.names = {i: name for name, i in self.special.items()}
        self._cache = {}

    @property
    def vocabulary_size(self):
        return len(self.tokens) + SPECIAL_COUNT

    @staticmethod
    def load(path):
        with open(path, "rb") as f:
            lines = f.read().splitlines()
        tokens = []
        for rank, line in enumerate(lines):
            word, number = line.split()
            if int(number) != rank:
                raise ValueError(f"{path}: rank {int(number)} in line {rank + 1}")
            tokens.append(base64.b64decode(word))
        return Tokenizer(tokens)

    def rank_file(self):
        """The bytes of tiktoken.model."""
        lines = (base64.b64encode(t) + b" %d\n" % rank for rank, t in enumerate(self.tokens))
        return b"".join(lines)

    def config(self):
        """tokenizer_config.json, with the names K3 gives its control tokens."""
        added = {
            str(len(self.tokens) + at): {
                "content": name,
                "lstrip": False,
                "normalized": False,
                "rstrip": False,
                "single_word": False,
                "special": special,
            }
            for at, (name, special) in SPECIALS.items()
        }
        return {
            "added_tokens_decoder": added,
            "bos_token": "[BOS]",
            "clean_up_tokenization_spaces": False,
            "eos_token": "[EOS]",
            "model_max_length": 1000000000000000019884624838656,
            "pad_token": "[PAD]",
            "tokenizer_class": "TikTokenTokenizer",
            "unk_token": "[UNK]",
        }

    def encode(self, text):
        """Ordinary text; names of control tokens in it stay text."""
        return [i for piece in split(text) for i in self._piece(piece)]

    def _piece(self, piece):
        ids = self._cache.get(piece)
        if ids is None:
            ids = self._cache[piece] = self._merge(piece.encode())
        return ids

    def _merge(self, data):
        if data in self.ranks:
            return [self.ranks[data]]
        parts = [bytes([b]) for b in data]
        while len(parts) > 1:
            pairs = [self.ranks.get(a + b, len(self.ranks)) for a, b in zip(parts, parts[1:])]
            best = min(pairs)
            if best == len(self.ranks):
                break
            at = pairs.index(best)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return [self.ranks[p] for p in parts]

    def decode(self, ids):
        data = b"".join(self.tokens[i] if i < len(self.tokens) else self._name(i).encode() for i in ids)
        return data.decode("utf-8", errors="replace")

    def _name(self, i):
        return self.names.get(i, f"<|reserved_token_{i}|>")
