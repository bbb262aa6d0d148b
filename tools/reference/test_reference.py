"""Tests of the reference: python3 -m unittest discover tools/reference"""

import json
import os
import struct
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import check
import config
import golden
import make_checkpoint
import safetensors
from checkpoint import Checkpoint, decode_mxfp4
from make_checkpoint import Options
from mistakes import MISTAKES
from model import Model, State, Trace, boundary_margin, sigmoid, softplus

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOLDEN = os.path.join(ROOT, "tests", "data", "golden")
VENDOR = os.path.join(os.path.dirname(ROOT), "shared", "golden")
SECTION_4 = ("a_log_per_channel", "clamped_softplus_decay", "experts_weighed_with_bias")


def case(name):
    return check.Case(os.path.join(GOLDEN, name))


def logits_of(folder, tokens):
    return Model(Checkpoint(folder)).forward(tokens, State())


class SafetensorsTest(unittest.TestCase):
    def test_bf16_rounds_to_nearest_even(self):
        values = np.array([1, 1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-7 - 2**-9, 1.25 * 2**-133])
        back = safetensors.bf16_to_f32(safetensors.f32_to_bf16(values))
        self.assertEqual(list(back), [1, 1, 1 + 2**-6, -1 - 2**-7, 2**-133])

    def test_tensors_come_back_and_an_odd_header_misaligns_them(self):
        made = {"a": safetensors.store(np.arange(6).reshape(2, 3), "BF16"),
                "b": safetensors.store(np.arange(3), "F32")}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.safetensors")
            for odd in (False, True):
                safetensors.write_file(path, made, odd)
                data, header = safetensors.read_header(path)
                self.assertEqual(data % 8 if not odd else data % 2, int(odd))
                for name, tensor in made.items():
                    found = safetensors.read_tensor(path, data, header[name])
                    np.testing.assert_array_equal(found.values(), tensor.values())

    def test_a_truncated_file_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.safetensors")
            safetensors.write_file(path, {"a": safetensors.store(np.arange(6), "F32")})
            with open(path, "r+b") as file:
                file.truncate(os.path.getsize(path) - 1)
            with self.assertRaisesRegex(ValueError, "a: data outside the file"):
                safetensors.read_header(path)
            with open(path, "r+b") as file:
                file.write(struct.pack("<Q", 1 << 60))
            with self.assertRaisesRegex(ValueError, "exceeds the file"):
                safetensors.read_header(path)


class Mxfp4Test(unittest.TestCase):
    def test_low_nibble_is_the_even_column_and_bit_3_the_sign(self):
        packed = np.array([[0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE] * 2], np.uint8)
        half = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
        wanted = (half + [-value for value in half]) * 2
        decoded = decode_mxfp4(packed, np.array([[127]], np.uint8))
        np.testing.assert_array_equal(decoded[0], wanted)
        self.assertTrue(np.signbit(decoded[0, 8]))

    def test_scales_reach_both_ends_and_nan_is_refused(self):
        packed = np.full((1, 16), 0x22, np.uint8)
        for byte in (0, 1, 253, 254):
            decoded = decode_mxfp4(packed, np.array([[byte]], np.uint8))
            self.assertEqual(decoded[0, 0], 2.0 ** (byte - 127))
        with self.assertRaisesRegex(ValueError, "255 is NaN"):
            decode_mxfp4(packed, np.array([[255]], np.uint8))

    def test_quantising_keeps_values_that_fit_and_rounds_the_others(self):
        values = np.random.default_rng(1).normal(0, 1, (5, 64))
        once = decode_mxfp4(*make_checkpoint.quantize(values))
        np.testing.assert_array_equal(decode_mxfp4(*make_checkpoint.quantize(once)), once)
        self.assertLess(check.relative_l2(once, values), 0.2)


class ConfigTest(unittest.TestCase):
    def test_nested_and_flat_are_the_same(self):
        flat = make_checkpoint.geometry("k3")
        self.assertEqual(config.parse(flat), config.parse({"text_config": flat}))

    def test_every_required_field_is_named_when_it_is_absent_or_null(self):
        for fields, path in ((config.FIELDS, ""), (config.LINEAR_FIELDS, "linear_attn_config.")):
            for name, absent in fields.items():
                changed = make_checkpoint.geometry("k3", {"hidden_size": 64, path + name: None})
                if absent is config.REQUIRED:
                    with self.assertRaisesRegex(ValueError, path + name):
                        config.parse(changed)
                else:
                    config.parse(changed)

    def test_unknown_values_and_contradictions_are_refused(self):
        for name, value in (("hidden_act", "gelu"), ("mla_use_nope", False),
                            ("num_key_value_heads", 1), ("tie_word_embeddings", True),
                            ("num_nextn_predict_layers", 1), ("activation_situ_linear_beta", 0),
                            ("moe_router_activation_func", "tanh"), ("num_expert_group", 3),
                            ("num_experts_per_token", 9), ("moe_intermediate_size", 33),
                            ("linear_attn_config.kda_layers", [0, 1, 3, 4])):
            with self.assertRaises(ValueError, msg=name):
                config.parse(make_checkpoint.geometry("k3", {name: value}))
        text = make_checkpoint.geometry("k3")
        with self.assertRaisesRegex(ValueError, "rms_norm_eps differs"):
            config.parse({"text_config": text, "rms_norm_eps": 1e-6})

    def test_all_problems_are_listed_at_once(self):
        with self.assertRaisesRegex(ValueError, "hidden_act.*mla_use_nope"):
            config.parse(make_checkpoint.geometry(
                "k3", {"hidden_act": "gelu", "mla_use_nope": False}))


class LayoutTest(unittest.TestCase):
    """However a checkpoint is laid out, the numbers are the same."""

    def logits(self, **options):
        with tempfile.TemporaryDirectory() as folder:
            fields = make_checkpoint.geometry("k3", golden.layers([1, 3], [2]))
            make_checkpoint.make(folder, fields, Options(seed=5, **options))
            return logits_of(folder, [1, 2, 3])

    def test_shards_order_alignment_and_names_change_nothing(self):
        plain = self.logits()
        for options in ({"shards": 4}, {"shuffle": True, "shards": 2}, {"unaligned": True},
                        {"index": False}, {"nested": False}, {"prefix": False},
                        {"vision": True}):
            np.testing.assert_array_equal(self.logits(**options), plain, err_msg=str(options))

    def test_a_missing_or_misshapen_tensor_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            fields = make_checkpoint.geometry("k3", golden.layers([1], [2]))
            make_checkpoint.make(folder, fields, Options())
            for change, name in (({"mla_use_output_gate": None, "q_lora_rank": None},
                                  "self_attn.q_proj.weight"),
                                 ({"kv_lora_rank": 21}, "kv_a_proj_with_mqa.weight")):
                changed = make_checkpoint.geometry("k3", {**golden.layers([1], [2]), **change})
                make_checkpoint.write_json(os.path.join(folder, "config.json"),
                                           {"text_config": changed})
                with self.assertRaisesRegex(ValueError, name):
                    Checkpoint(folder)


class PartsTest(unittest.TestCase):
    """Single steps against loops written out from the definition."""

    def test_delta_step(self):
        rng = np.random.default_rng(0)
        heads, dim = 2, 3
        s = rng.normal(size=(heads, dim, dim))
        q, k, v = rng.normal(size=(3, heads, dim))
        decay, beta = rng.random((heads, dim)), rng.random(heads)
        o, new = Model.delta_step(None, s, q, k, v, decay, beta)
        for h in range(heads):
            decayed = np.array([[s[h, i, j] * decay[h, i] for j in range(dim)]
                                for i in range(dim)])
            for j in range(dim):
                read = sum(k[h, i] * decayed[i, j] for i in range(dim))
                d = beta[h] * (v[h, j] - read)
                column = [decayed[i, j] + k[h, i] * d for i in range(dim)]
                np.testing.assert_allclose(new[h, :, j], column, rtol=1e-12)
                wanted = sum(q[h, i] * column[i] for i in range(dim))
                self.assertAlmostEqual(o[h, j], wanted, places=12)

    def test_activations_at_both_ends(self):
        np.testing.assert_allclose(sigmoid(np.array([-1000.0, 0, 1000])), [0, 0.5, 1])
        np.testing.assert_allclose(softplus(np.array([-1000.0, 0, 20, 1000])),
                                   [0, np.log(2), 20 + np.log1p(np.exp(-20.0)), 1000])

    def test_margin_sees_both_sides_of_an_exact_tie(self):
        size = np.ones((1, 4))
        margin = boundary_margin(np.array([[0.9, 0.5, 0.5, 0.1]]), size, 2)
        self.assertAlmostEqual(margin[0], 0.4)
        margin = boundary_margin(np.array([[0.6, 0.5, 0.5, 0.1]]), size, 2)
        self.assertAlmostEqual(margin[0], 0.1)
        margin = boundary_margin(np.array([[0.9, 0.5, 0.4, 0.1]]), size, 2)
        self.assertAlmostEqual(margin[0], 0.1)

    def test_ties_go_to_the_lower_expert(self):
        found = case("expert-ties")
        trace = Trace()
        Model(found.checkpoint()).forward(found.prompt, State(), trace)
        decided = 0
        for ids in trace.router_ids.values():
            for group in golden.CASES["expert-ties"].options["ties"]:
                for row in ids:
                    present = [expert in row for expert in group]
                    self.assertEqual(present, sorted(present, reverse=True))
                    decided += any(present) and not all(present)
        self.assertGreater(decided, 5)

    def test_a_prompt_in_chunks_is_the_prompt_at_once(self):
        for name in ("k3", "kimi-linear", "odd-shapes"):
            found = case(name)
            model = Model(found.checkpoint())
            whole = model.forward(found.prompt, State())
            for size in (1, 7):
                state = State()
                parts = [model.forward(found.prompt[at:at + size], state)
                         for at in range(0, len(found.prompt), size)]
                self.assertLess(check.relative_l2(np.concatenate(parts), whole), 1e-13)


class GoldenTest(unittest.TestCase):
    def check_folder(self, folder):
        found = check.Case(folder)
        for what, error in check.compare(found, Model(found.checkpoint())).items():
            self.assertLessEqual(error, check.tolerance(found, what), f"{found.name}: {what}")

    def test_every_case_of_the_repository(self):
        names = sorted(name for name in os.listdir(GOLDEN)
                       if os.path.isdir(os.path.join(GOLDEN, name)))
        self.assertEqual(names, sorted(golden.CASES))
        for name in names:
            with self.subTest(name):
                self.check_folder(os.path.join(GOLDEN, name))

    @unittest.skipUnless(os.path.isdir(VENDOR), "the vendor's golden cases are not here")
    def test_the_vendors_cases(self):
        for name in ("tiny-13", "tiny-nolatent"):
            with self.subTest(name):
                self.check_folder(os.path.join(VENDOR, name))

    def test_float32_changes_no_decision_and_moves_the_logits_little(self):
        for name in ("k3", "extreme-scales", "far-numbers"):
            found = case(name)
            result = check.compare(found, Model(found.checkpoint(), np.float32))
            self.assertLessEqual(result["prompt_logits"], 3e-6, name)
            self.assertEqual(result["greedy_ids"], 0, name)

    def test_a_case_is_made_again_to_the_byte(self):
        with tempfile.TemporaryDirectory() as folder:
            golden.make_checkpoint_of("unaligned", folder, golden.CASES["unaligned"].seed)
            for name in ("config.json", "model.safetensors"):
                with open(os.path.join(folder, name), "rb") as made, \
                        open(os.path.join(GOLDEN, "unaligned", "checkpoint", name), "rb") as kept:
                    self.assertEqual(made.read(), kept.read(), name)


class MistakesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(os.path.join(GOLDEN, "mistakes.json"), encoding="utf-8") as file:
            cls.recorded = json.load(file)

    def test_every_mistake_is_recorded_with_tokens_that_differ(self):
        self.assertEqual(set(self.recorded), set(MISTAKES))
        for mistake, cases in self.recorded.items():
            self.assertTrue(cases, f"no case tells {mistake} from the truth")
            for name, ids in cases.items():
                self.assertNotEqual(ids, case(name).greedy_ids, f"{mistake} {name}")

    def test_every_mistake_gives_its_recorded_tokens(self):
        for mistake, cases in self.recorded.items():
            with self.subTest(mistake):
                name = min(cases, key=lambda n: case(n).checkpoint().config.layers)
                self.assertEqual(golden.mistaken_ids(case(name), mistake)[0], cases[name])

    def test_mistakes_of_the_prompt_move_its_logits(self):
        for mistake, cases in self.recorded.items():
            if mistake == "conv_tail_dropped":  # shows only after the first call
                continue
            with self.subTest(mistake):
                found = case(next(iter(cases)))
                self.assertGreater(golden.mistaken_ids(found, mistake)[1], 1e-4)

    def test_the_three_of_section_4_change_tokens_of_several_cases(self):
        for mistake in SECTION_4:
            self.assertGreaterEqual(len(self.recorded[mistake]), 3, mistake)


if __name__ == "__main__":
    unittest.main()
