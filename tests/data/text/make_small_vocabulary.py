#!/usr/bin/env python3
"""Writes small/tiktoken.model and small/tokenizer_config.json, the vocabulary of the text tests.

The 256 bytes (in an order of their own, so that no test can confuse byte and rank), 500 merges
learnt from the corpus below, and 32 special ids of which some are named, with gaps.
"""

import base64
import collections
import json
import pathlib
import re

MERGES = 500
RESERVED = 32
NAMED = {  # offset in the reserved block -> (name, special)
    0: ("[BOS]", True), 1: ("[EOS]", True), 2: ("<|end_of_msg|>", True), 3: ("<|open|>", False),
    4: ("<|close|>", False), 5: ("<|sep|>", False), 9: ("[EOT]", True),
    18: ("<|media_begin|>", True), 19: ("<|media_content|>", True), 20: ("<|media_end|>", True),
    21: ("<|media_pad|>", True), 30: ("[UNK]", True), 31: ("[PAD]", True),
}
CORPUS = """
The harbour was quiet when the ferry came in. Two gulls sat on the railing and watched the ropes
being thrown; the captain didn't hurry, and nobody on the pier thought that he should've. "We'll
wait," she said, "until the tide turns. It's always been like that." The engine stopped. There were
37 passengers, 4 bicycles and one dog, which wasn't on the list. The weather had been fair since
Monday, 18 degrees in the morning and 24 in the afternoon, and the water was as flat as a table.
They carried the crates up to the market: apples, onions, bread, 12 kilograms of cheese. Then the
rain began, first a few drops, then all of it, and everyone ran for the roof of the old customs
house. In the dark they told stories about the lighthouse keeper who had answered every letter.
the message role user system assistant tool tools call index argument key type string number object
array boolean null json think response thinking effort name content result weather city unit celsius
<message role="user" type="string" name="weather" key="city" index="1" tool="get_weather">
{"type":"function","function":{"name":"get_weather","description":"Get the weather of a city.",
"parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}
def weather(city, unit="celsius"):
    if not city:
        return None
    return {"city": city, "degrees": 18.5, "unit": unit}
for (int i = 0; i < 100; ++i) { total += values[i] * 2; }
////////======== -------- ________ ........ aaaaaaaa        !!!!  ????  ##  ###  ***
世界你好，今天天气很好。世界上有很多人，他们说中文。北京的天气怎么样？今天北京是晴天。
Größe, façade, naïve, été, señor, Привет мир, привет, Ελλάδα, 日本語です、ありがとう。
😀😃👍🏽👩‍👩‍👧 😀 👍 → ← ✓
""" * 2
PIECE = re.compile(r"[\u4e00-\u9fff]+|[^\r\n\w]?[^\W\d_\u4e00-\u9fff]+(?:'(?:s|t|re|ve|ll|m|d))?"
                   r"|\d{1,3}| ?[^\s\w]+[\r\n]*|_+|\s+")


def learn_merges(first_tokens):
    words = collections.Counter(m.group().encode() for m in PIECE.finditer(CORPUS))
    split = {word: [bytes([b]) for b in word] for word in words}
    tokens = list(first_tokens)
    while len(tokens) < len(first_tokens) + MERGES:
        pairs = collections.Counter()
        for word, parts in split.items():
            for pair in zip(parts, parts[1:]):
                pairs[pair] += words[word]
        left, right = max(pairs, key=lambda p: (pairs[p], p))
        if left + right not in tokens:
            tokens.append(left + right)
        for word, parts in split.items():
            merged = []
            for part in parts:
                if merged and merged[-1] == left and part == right:
                    merged[-1] = left + right
                else:
                    merged.append(part)
            split[word] = merged
    return tokens


def main():
    folder = pathlib.Path(__file__).parent / "small"
    tokens = learn_merges([bytes([(33 + i) % 256]) for i in range(256)])
    with open(folder / "tiktoken.model", "w", encoding="ascii", newline="\n") as out:
        for rank, token in enumerate(tokens):
            out.write(f"{base64.b64encode(token).decode()} {rank}\n")
    decoder = {str(len(tokens) + offset): {"content": name, "special": special}
               for offset, (name, special) in NAMED.items()}
    config = {"added_tokens_decoder": decoder, "bos_token": "[BOS]", "eos_token": "[EOS]",
              "pad_token": "[PAD]", "unk_token": "[UNK]", "tokenizer_class": "TikTokenTokenizer",
              "model_max_length": 1000000000000000019884624838656}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


main()
