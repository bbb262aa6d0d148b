// Which rows of which texts a pass computes.
#include "engine/pass_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <numeric>

#include "engine/golden_engine.h"

namespace kimi_k3 {
namespace {

using Phase = TextProgress::Phase;
using testing::ElementsAre;

// Texts in slots of an engine that computes nothing here: rows are chosen, not run.
class ChoosingRows : public testing::Test {
 protected:
  explicit ChoosingRows(size_t sequences = 4) {
    for (size_t i = 0; i < sequences; ++i) slots_.emplace_back().sequence = engine_.NewSequence();
  }

  ScheduledText& Put(size_t slot, Phase phase, size_t tokens, TextRequest request = {}) {
    request.prompt.resize(tokens);
    std::iota(request.prompt.begin(), request.prompt.end(), TokenId{1});
    slots_[slot].text = std::make_shared<ScheduledText>(std::move(request), nullptr);
    slots_[slot].text->phase = phase;
    return *slots_[slot].text;
  }

  // Rows of each slot in the next pass.
  std::vector<size_t> Choose(PassRows& pass) {
    pass.Choose(slots_, PassCost());
    std::map<const Sequence*, size_t> rows;
    for (const PassRow& row : pass.rows()) ++rows[row.sequence];
    std::vector<size_t> by_slot;
    for (const TextSlot& slot : slots_) by_slot.push_back(rows[&*slot.sequence]);
    return by_slot;
  }

  Engine engine_ = Engine::Open(GoldenOptions("k3"));
  std::vector<TextSlot> slots_;
};

TEST_F(ChoosingRows, EmptySlotsHaveNone) {
  PassRows pass(8);
  EXPECT_THAT(Choose(pass), ElementsAre(0, 0, 0, 0));
  EXPECT_TRUE(pass.rows().empty());
  EXPECT_FALSE(pass.has_prompts());
}

TEST_F(ChoosingRows, TextsThatAreGeneratedComeFirstAndPromptsTakeWhatIsLeft) {
  PassRows pass(8);
  Put(1, Phase::kAnswer, 1);
  Put(2, Phase::kPrompt, 20);
  EXPECT_THAT(Choose(pass), ElementsAre(0, 1, 7, 0));
  EXPECT_TRUE(pass.has_prompts());
  EXPECT_EQ(pass.rows().front().sequence, &*slots_[1].sequence);
  EXPECT_TRUE(slots_[1].text->in_pass);
}

TEST_F(ChoosingRows, APromptHasAQuarterWhateverElseRuns) {
  PassRows pass(4);
  for (const size_t slot : {0, 1, 2}) Put(slot, Phase::kAnswer, 1);
  Put(3, Phase::kPrompt, 20);
  for (int i = 0; i < 4; ++i) {
    const std::vector<size_t> rows = Choose(pass);
    EXPECT_EQ(rows[3], 1U);
    EXPECT_EQ(rows[0] + rows[1] + rows[2], 3U);
  }
}

TEST_F(ChoosingRows, TextsTakeTurnsWhereAPassIsTooSmallForAll) {
  PassRows pass(2);
  for (const size_t slot : {0, 1, 2, 3}) Put(slot, Phase::kAnswer, 1);
  EXPECT_THAT(Choose(pass), ElementsAre(1, 1, 0, 0));
  EXPECT_FALSE(slots_[2].text->in_pass);
  EXPECT_THAT(Choose(pass), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(Choose(pass), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(Choose(pass), ElementsAre(1, 0, 0, 1));
}

TEST_F(ChoosingRows, LogitsAreWantedWhereATokenIsChosenOrScored) {
  PassRows pass(16);
  Put(0, Phase::kPrompt, 4);
  Put(1, Phase::kPrompt, 4, {.max_tokens = 0});
  Put(2, Phase::kPrompt, 4, {.max_tokens = 0, .score_from = 2});
  Choose(pass);
  std::vector<bool> wanted;
  for (const PassRow& row : pass.rows()) wanted.push_back(row.wants_logits);
  // The row before a token tells its probability.
  EXPECT_THAT(wanted, ElementsAre(false, false, false, true,   //
                                  false, false, false, false,  //
                                  false, true, true, false));
  EXPECT_EQ(pass.wanted_logits(), 3U);
  EXPECT_EQ(slots_[2].wanted_logits, 2U);
}

TEST_F(ChoosingRows, RowsAreTheTokensThatTheStateHasNotSeen) {
  PassRows pass(16);
  Put(0, Phase::kPrompt, 3);
  Choose(pass);
  std::vector<TokenId> tokens;
  for (const PassRow& row : pass.rows()) tokens.push_back(row.token);
  EXPECT_THAT(tokens, ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace kimi_k3
