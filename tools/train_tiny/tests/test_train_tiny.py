"""Tests of the training code: `python -m unittest discover -t . -s tests` in tools/train_tiny (needs torch)."""

import json
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from k3tiny import bpe, chat, checkpoint, evaluate, mxfp4, verses
from k3tiny.geometry import Geometry
from k3tiny.initial import initialise
from k3tiny.kernels import conv_silu, delta_rule, situ_bf16
from k3tiny.model import Model, situ
from k3tiny.optimiser import orthogonal

SHARED = Path(__file__).resolve().parents[4] / "shared"
SMALL = Geometry(vocab=300, hidden=64, dense_width=96, experts=8, active=2, q_lora=32, kv_lora=32, latent=32)


def distance(a, b):
    return ((a.double() - b.double()).norm() / b.double().norm()).item()


def small_tokenizer():
    text = "In the beginning God created the heaven and the earth. And the earth was without form, and void; "
    return bpe.Tokenizer(bpe.train_vocabulary([(text, 1)], 300))


class Vocabulary(unittest.TestCase):
    def test_text_comes_back(self):
        tokenizer = small_tokenizer()
        text = "And, behold: it's 1611!\n\n  the  EARTH's\t"
        self.assertEqual(tokenizer.decode(tokenizer.encode(text)), text)

    def test_split_follows_the_published_pattern(self):
        expected = {
            "HTMLParser camelCase": ["HTMLParser", " camel", "Case"],
            "a  b": ["a", " ", " b"],
            "!\n/x": ["!\n", "/x"],
            "it's 12345": ["it's", " ", "123", "45"],
        }
        for text, pieces in expected.items():
            self.assertEqual(bpe.split(text), pieces)

    def test_real_vocabulary_gives_the_published_ids(self):
        folder = SHARED / "data/tokenizer"
        if not folder.exists():
            self.skipTest("../shared is absent")
        tokenizer = bpe.Tokenizer.load(folder / "tiktoken.model")
        cases = json.loads((folder / "tokenizer_cases.json").read_text())["cases"]
        cases = [c for c in cases if c["text"].isascii() and not c["allow_special"]]
        self.assertGreater(len(cases), 50)
        for case in cases:
            self.assertEqual(tokenizer.encode(case["text"]), case["ids"], case["name"])

    def test_chat_gives_the_published_ids(self):
        folder = SHARED / "data/tokenizer"
        if not folder.exists():
            self.skipTest("../shared is absent")
        ours = chat.Chat(bpe.Tokenizer.load(folder / "tiktoken.model"))
        cases = json.loads((folder / "chat_cases.json").read_text())["chat_cases"]
        matched = 0
        for case in cases:
            ids = self.render(ours, case["messages"], case["options"])
            if ids is not None:
                self.assertEqual(ids, case["ids"], case["name"])
                matched += 1
        self.assertGreaterEqual(matched, 3)

    @staticmethod
    def render(ours, messages, options):
        """The ids of conversations of one user message after at most one system message, else None."""
        roles = [m["role"] for m in messages]
        plain = all(set(m) == {"role", "content"} and isinstance(m["content"], str) for m in messages)
        ascii_only = plain and all(m["content"].isascii() for m in messages)
        if roles not in (["user"], ["system", "user"]) or not ascii_only:
            return None
        if set(options) - {"thinking", "thinking_effort"}:
            return None
        effort = options.get("thinking_effort")
        if options.get("thinking", True) == (effort is None):
            return None
        return ours.prompt(messages[-1]["content"], effort, messages[0]["content"] if len(messages) == 2 else None)

    def test_teaching_page_masks_all_but_the_answers(self):
        tokenizer = small_tokenizer()
        lessons = {"Genesis 1:1": "In the beginning"}
        ids, mask = verses.teaching_page(chat.Chat(tokenizer), lessons, np.random.default_rng(0))
        self.assertEqual(len(ids), len(mask))
        self.assertEqual((ids[-1], mask[-1]), (tokenizer.special["<|end_of_msg|>"], 1))
        self.assertEqual(mask[0], 0)


class Kernels(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def compare(self, ours, plain, inputs, limit):
        a = [t.clone().requires_grad_() for t in inputs]
        b = [t.double().requires_grad_() for t in inputs]
        x, y = ours(*a), plain(*b)
        weight = torch.randn(y.shape)
        (x * weight).sum().backward()
        (y * weight).sum().backward()
        self.assertLess(distance(x, y), limit)
        for p, q in zip(a, b):
            self.assertLess(distance(p.grad, q.grad), limit)

    def test_convolution(self):
        def plain(x, w):
            y = F.conv1d(F.pad(x.transpose(1, 2), (3, 0)), w[:, None], groups=w.shape[0])
            return F.silu(y.transpose(1, 2))

        self.compare(conv_silu, plain, [torch.randn(2, 21, 12), torch.randn(12, 4)], 1e-6)

    def test_delta_rule(self):
        def plain(q, k, v, decay, beta):
            state, out = q.new_zeros(*q.shape[:1], *q.shape[2:], v.shape[-1]), []
            for t in range(q.shape[1]):
                state = state * decay[:, t, ..., None]
                d = beta[:, t, :, None] * (v[:, t] - torch.einsum("bhk,bhkv->bhv", k[:, t], state))
                state = state + k[:, t, ..., None] * d[:, :, None]
                out.append(torch.einsum("bhk,bhkv->bhv", q[:, t], state))
            return torch.stack(out, 1)

        q, k, v = (torch.randn(2, 37, 3, 32) for _ in range(3))
        k = k / k.norm(dim=-1, keepdim=True)
        self.compare(delta_rule, plain, [q, k, v, torch.rand(2, 37, 3, 32), torch.rand(2, 37, 3)], 1e-6)

    def test_situ_in_bf16_is_the_float32_one_rounded(self):
        x = 8 * torch.randn(50, 128)
        a, b = x.bfloat16().requires_grad_(), x.bfloat16().float().requires_grad_()
        ours, plain = situ_bf16(a, 25.0), situ(b, 4.0, 25.0)
        ours.float().sum().backward()
        plain.sum().backward()
        self.assertLess(distance(ours, plain), 3e-3)
        self.assertLess(distance(a.grad, b.grad), 3e-3)


class Mxfp4(unittest.TestCase):
    def test_packed_and_unpacked_is_rounded(self):
        w = torch.randn(6, 64) * torch.exp2(torch.randint(-9, 4, (6, 1)).float())
        self.assertTrue(torch.equal(mxfp4.unpack(*mxfp4.pack(w)), mxfp4.rounded(w)))

    def test_representable_values_stay(self):
        w = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6] * 4).view(1, 32) * torch.tensor([[0.25]])
        self.assertTrue(torch.equal(mxfp4.rounded(w), w))
        self.assertTrue(torch.equal(mxfp4.rounded(-w), -w))

    def test_error_is_that_of_four_bits(self):
        w = torch.randn(256, 256)
        self.assertLess(distance(mxfp4.rounded(w), w), 0.125)

    def test_low_nibble_is_the_even_column(self):
        w = torch.zeros(1, 32)
        w[0, 0], w[0, 1] = 6.0, -1.0
        self.assertEqual(mxfp4.pack(w)[0][0, 0].item(), 7 | (10 << 4))


class WholeModel(unittest.TestCase):
    def test_agrees_with_the_vendors_code(self):
        folder = SHARED / "golden/tiny-13"
        if not folder.exists():
            self.skipTest("../shared is absent")
        model = checkpoint.load(folder / "checkpoint")
        ids = json.loads((folder / "golden.json").read_text())["prompt_ids"]
        expected = torch.from_numpy(np.fromfile(folder / "prompt_logits_f64.f32", dtype="<f4")).view(len(ids), -1)
        with torch.no_grad():
            self.assertLess(distance(model(torch.tensor([ids]))[0], expected), 2e-6)

    def test_export_and_import_give_the_stored_weights(self):
        model = Model(SMALL)
        initialise(model, 3)
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.01 * torch.randn(p.shape))
        with tempfile.TemporaryDirectory() as folder:
            checkpoint.save(model, folder, small_tokenizer())
            again = checkpoint.load(folder)
            self.assertEqual(again.g, model.g)
            for name, p in model.named_parameters():
                stored = again.get_parameter(name)
                if name.endswith((".w1", ".w2", ".w3")):
                    self.assertTrue(torch.equal(stored, mxfp4.rounded(p)), name)
                elif any(n in name for n in ("A_log", "dt_bias", "conv1d", "o_norm")):
                    self.assertTrue(torch.equal(stored, p), name)
                else:
                    self.assertTrue(torch.equal(stored, p.bfloat16().float()), name)

    def test_gradient_is_the_slope(self):
        """Every expert is chosen, so that no choice flips between the two points."""
        torch.manual_seed(1)
        model = Model(replace(SMALL, active=SMALL.experts))
        initialise(model, 5)
        with torch.no_grad():
            for name, p in model.named_parameters():
                if name.endswith("res_proj"):
                    p.normal_(0, 0.1)
            model.lm_head.mul_(50)
        ids = torch.randint(0, SMALL.vocab, (2, 20))

        def loss():
            return F.cross_entropy(model(ids).double().flatten(0, 1), ids.flatten())

        loss().backward()
        compared = 0
        with torch.no_grad():
            for name, p in model.named_parameters():
                if p.grad is None or p.grad.norm() < 0.05:
                    continue
                norm = p.grad.norm().item()
                step = 0.01 / norm * p.grad / norm  # moves the loss by 0.01
                p.add_(step)
                up = loss().item()
                p.sub_(step, alpha=2)
                slope = (up - loss().item()) / 0.02
                p.add_(step)
                self.assertAlmostEqual(slope, 1.0, delta=0.02, msg=name)
                compared += 1
        self.assertGreater(compared, 100)

    def test_causal(self):
        model = Model(SMALL)
        initialise(model, 5)
        ids = torch.randint(0, SMALL.vocab, (1, 30))
        changed = ids.clone()
        changed[0, 20] = (ids[0, 20] + 1) % SMALL.vocab
        with torch.no_grad():
            a, b = model(ids), model(changed)
        self.assertLess(distance(a[:, :20], b[:, :20]), 1e-6)
        self.assertGreater(distance(a[:, 20:], b[:, 20:]), 1e-4)

    def test_recall_in_one_pass_is_greedy_decoding(self):
        model = Model(SMALL)
        initialise(model, 5)
        with torch.no_grad():
            model.lm_head.mul_(100)
        prompt = [5, 9, 2]
        ids, _ = evaluate.greedy(model, prompt, 6)
        wrong = ids[:3] + [(ids[3] + 1) % SMALL.vocab] + ids[4:]
        self.assertEqual(evaluate.is_greedy(model, [prompt, prompt], [ids, wrong]), [True, False])

    def test_newton_schulz_makes_singular_values_near_one(self):
        torch.manual_seed(2)
        values = torch.linalg.svdvals(orthogonal(torch.randn(3, 24, 40)))
        self.assertGreater(values.min().item(), 0.4)
        self.assertLess(values.max().item(), 1.4)


if __name__ == "__main__":
    unittest.main()
