"""The trained model of models/tiny: the reference gives its recorded logits, a wrong one does not.

Readable text shows little: many mistakes leave it fluent. So each is made on purpose here, and has
to move the logits much further than an engine may be off.
"""

import dataclasses
import hashlib
import json
import math
import os
import sys
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from check import relative_l2
from checkpoint import Checkpoint
from mistakes import MISTAKES
from model import Model, State

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(ROOT, "models", "tiny")
RECORDED = os.path.join(ROOT, "tests", "data", "tiny")

TOLERANCE = 1e-5  # what an engine may be off, relative L2
CAUGHT = 100 * TOLERANCE  # what a mistake has to move
SECTION_4 = ("a_log_per_channel", "clamped_softplus_decay", "experts_weighed_with_bias")

# Mistakes that this model cannot show, and why; tests/data/golden has cases for every one.
HIDDEN = {
    "no_l2_eps": "no vector of q or k is short enough for the epsilon to count",
    "latent_norm_eps": "the latents are long, so that 1e-5 in place of 1e-6 moves little",
    "lower_bound_fixed": "its bound is the -5 that is put in",
    "softplus_overflow": "its decay has no softplus",
    "rms_eps_fixed": "its epsilon is the 1e-5 that is put in",
    "linear_beta_default": "it has a linear beta",
    "situ_beta_default": "its beta is the 4 that is put in",
    "situ_beta_zero_unbounded": "its beta is not 0",
    "sigmoid_for_softmax": "its router is the sigmoid that is put in",
    "renormalize_top_one": "it chooses more than one expert",
    "not_renormalized": "the norm after the experts takes the size of the weights out again",
    "renormalized_always": "it renormalises",
    "renormalize_eps_missing": "its weights never sum to nearly zero",
    "scale_before_renormalize": "its scaling factor is 1",
    "scale_only_if_renormalized": "its scaling factor is 1",
    "masked_groups_zero": "it has one group",
    "group_score_best": "it has one group",
    "groups_ignored": "it has one group",
    "ties_to_higher_index": "no two of its experts tie",
    "expert_id_in_byte": "it has 32 experts",
    "moe_layer_freq_ignored": "every layer after the first is one of experts",
    "scale_zero_flushed": "no scale byte of it is 0",
}

# What could be misread in the config; the two betas are taken for each other.
MISREAD = {
    "rms_eps": 1e-6,
    "gate_lower_bound": -4.0,
    "situ_beta": 25.0,
    "situ_linear_beta": 4.0,
    "top_k": 5,
    "block": 4,
    "router": "softmax",
    "activation": "silu",
    "mla_gate": False,
    "latent_norm": False,
}


def recorded():
    with open(os.path.join(RECORDED, "reference.json"), encoding="utf-8") as file:
        return json.load(file)


def stored_logits(excerpt, vocabulary):
    path = os.path.join(RECORDED, excerpt["logits_file"])
    return np.fromfile(path, "<f4").reshape(len(excerpt["logit_positions"]), vocabulary)


class RecordedTest(unittest.TestCase):
    """The reference against PyTorch, through docs/model.md alone."""

    @classmethod
    def setUpClass(cls):
        cls.recorded = recorded()
        cls.model = Model(Checkpoint(MODEL))

    def test_the_recorded_logits_belong_to_the_weights_that_are_here(self):
        for name, digest in self.recorded["weights_sha256"].items():
            with open(os.path.join(MODEL, name), "rb") as file:
                self.assertEqual(hashlib.sha256(file.read()).hexdigest(), digest, name)

    def test_logits_greatest_ids_and_bits_on_held_out_text(self):
        for excerpt in self.recorded["excerpts"]:
            with self.subTest(excerpt["name"]):
                ids = excerpt["ids"]
                logits = self.model.forward(ids, State())
                wanted = stored_logits(excerpt, self.recorded["vocabulary_size"])
                self.assertLessEqual(
                    relative_l2(logits[excerpt["logit_positions"]], wanted), TOLERANCE / 10)
                self.assertEqual(logits.argmax(axis=-1).tolist(), excerpt["greatest_ids"])
                top = logits.max(axis=-1)
                total = top + np.log(np.exp(logits - top[:, None]).sum(axis=-1))
                nats = (total[:-1] - logits[np.arange(len(ids) - 1), ids[1:]]).sum()
                self.assertAlmostEqual(nats / math.log(2) / excerpt["bytes"],
                                       excerpt["bits_per_byte"], places=6)


class MistakesTest(unittest.TestCase):
    COUNT = 48  # ids, in two calls, so that what has to be carried over is looked at too

    @classmethod
    def setUpClass(cls):
        everything = recorded()
        cls.excerpt = everything["excerpts"][0]
        stored = stored_logits(cls.excerpt, everything["vocabulary_size"])
        cls.positions = [p for p in cls.excerpt["logit_positions"] if p < cls.COUNT]
        cls.wanted = stored[:len(cls.positions)]
        cls.checkpoint = Checkpoint(MODEL)
        cls.right = Model(cls.checkpoint)

    def run_of(self, model):
        """(distance from the recorded logits, positions whose greatest id is another one)"""
        if not hasattr(model, "nibbles"):  # who decodes MXFP4 as it should shares the weights
            model._weights = self.right._weights
        ids, state = self.excerpt["ids"][:self.COUNT], State()
        half = self.COUNT // 2
        logits = np.concatenate([model.forward(part, state) for part in (ids[:half], ids[half:])])
        others = logits.argmax(axis=-1) != self.excerpt["greatest_ids"][:self.COUNT]
        return relative_l2(logits[self.positions], self.wanted), int(others.sum())

    def test_without_a_mistake_the_comparison_passes(self):
        distance, others = self.run_of(self.right)
        self.assertLessEqual(distance, TOLERANCE / 10)
        self.assertEqual(others, 0)

    def test_every_mistake_that_the_model_can_show_fails_the_comparison(self):
        self.assertLessEqual(set(HIDDEN), set(MISTAKES))
        shown = [name for name in MISTAKES if name not in HIDDEN]
        self.assertGreaterEqual(len(shown), 3 + 10)
        for name in shown:
            with self.subTest(name):
                self.assertGreater(self.run_of(MISTAKES[name](self.checkpoint))[0], CAUGHT)

    def test_what_is_said_to_be_hidden_is(self):
        for name in HIDDEN:
            with self.subTest(name):
                self.assertLess(self.run_of(MISTAKES[name](self.checkpoint))[0], TOLERANCE)

    def test_the_three_of_section_4_change_the_most_likely_token(self):
        for name in SECTION_4:
            with self.subTest(name):
                self.assertGreater(self.run_of(MISTAKES[name](self.checkpoint))[1], 0)

    def test_every_misread_field_of_the_config_fails_the_comparison(self):
        for field, value in MISREAD.items():
            with self.subTest(field):
                model = Model(self.checkpoint)
                self.assertNotEqual(getattr(model.config, field), value)
                model.config = dataclasses.replace(model.config, **{field: value})
                self.assertGreater(self.run_of(model)[0], CAUGHT)


if __name__ == "__main__":
    unittest.main()
