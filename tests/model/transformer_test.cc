// Whole passes against the plain forward pass, under every way of computing, and when they fail.
#include "model/transformer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>

#include "base/thread_pool.h"
#include "kimi_k3/error.h"
#include "model/model_test_support.h"

namespace kimi_k3 {
namespace {

constexpr size_t kPositions = 19;

std::vector<int32_t> RandomTokens(const ModelConfig& config, size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % config.vocabulary);
  return tokens;
}

// A model opened for computing as a variant says.
struct Machine {
  Machine(const TestModel& test_model, const ComputeVariant& variant, size_t max_rows)
      : model(test_model), stream(test_model, variant.stream) {
    if (variant.threads != 0) {
      parallel = std::make_unique<ThreadPool>(variant.threads);
    } else {
      parallel = std::make_unique<RandomCuts>(variant.parts, variant.stream.seed);
    }
    transformer = std::make_unique<Transformer>(model.config(), stream, *parallel, max_rows);
  }

  // Logits of every token, [tokens, vocabulary].
  std::vector<float> Run(SequenceState& sequence, std::span<const int32_t> tokens, size_t chunk) {
    const size_t vocabulary = model.config().vocabulary;
    std::vector<float> logits(tokens.size() * vocabulary);
    for (size_t done = 0; done < tokens.size(); done += chunk) {
      std::vector<Row> rows;
      for (size_t i = done; i < std::min(done + chunk, tokens.size()); ++i) {
        rows.push_back({.sequence = &sequence, .token = tokens[i], .wants_logits = true});
      }
      transformer->Forward(rows,
                           std::span(logits).subspan(done * vocabulary, rows.size() * vocabulary));
      EXPECT_TRUE(stream.PassIsOver());
    }
    return logits;
  }

  const TestModel& model;
  FakeWeightStream stream;
  std::unique_ptr<Parallel> parallel;
  std::unique_ptr<Transformer> transformer;
};

const ComputeVariant kPlain = {.name = "plain", .stream = {}};

class EveryGeometry : public testing::TestWithParam<TestGeometry> {
 protected:
  const ModelConfig& config() const { return GetParam().config; }
};

// Over all positions together: at a single one, a difference of near equals may turn the rounding
// of one f32 into more than the tolerance.
TEST_P(EveryGeometry, LogitsAreRight) {
  const TestModel model(config(), 51);
  const std::vector<int32_t> tokens = RandomTokens(config(), kPositions, 52);
  Machine machine(model, kPlain, kPositions);
  SequenceState sequence(config(), kPositions);
  const std::vector<float> logits = machine.Run(sequence, tokens, kPositions);
  EXPECT_EQ(sequence.positions(), kPositions);
  ReferenceSequence reference(model);
  std::vector<Numbers> expected;
  for (const int32_t token : tokens) expected.push_back(reference.Step(token));
  EXPECT_LE(RelativeError(logits, expected), kTolerance);
}

TEST_P(EveryGeometry, EveryBitIsTheSameForEveryWayOfComputing) {
  const TestModel model(config(), 53);
  const std::vector<int32_t> tokens = RandomTokens(config(), kPositions, 54);
  Machine plain(model, kPlain, kPositions);
  SequenceState first(config(), kPositions);
  const std::vector<float> expected = plain.Run(first, tokens, kPositions);
  for (const ComputeVariant& variant : ComputeVariants()) {
    Machine machine(model, variant, kPositions);
    SequenceState sequence(config(), kPositions);
    EXPECT_EQ(machine.Run(sequence, tokens, variant.rows_per_pass), expected) << variant.name;
  }
}

TEST_P(EveryGeometry, OnlyTheRowsThatWantLogitsGetThemAndNoneSkipsTheHead) {
  const TestModel model(config(), 55);
  const size_t vocabulary = config().vocabulary;
  const std::vector<int32_t> tokens = RandomTokens(config(), kPositions, 56);
  Machine machine(model, ComputeVariants()[2], kPositions);
  SequenceState first(config(), kPositions);
  const std::vector<float> all = machine.Run(first, tokens, kPositions);

  SequenceState sequence(config(), kPositions);
  std::vector<Row> rows;
  std::vector<float> expected;
  for (size_t t = 0; t + 1 < kPositions; ++t) {
    rows.push_back({.sequence = &sequence, .token = tokens[t], .wants_logits = t % 3 == 1});
    if (!rows.back().wants_logits) continue;
    const auto at = all.begin() + static_cast<ptrdiff_t>(t * vocabulary);
    expected.insert(expected.end(), at, at + static_cast<ptrdiff_t>(vocabulary));
  }
  std::vector<float> logits(expected.size());
  machine.transformer->Forward(rows, logits);
  EXPECT_EQ(logits, expected);

  sequence.Reset();
  for (Row& row : rows) row.wants_logits = false;
  machine.transformer->Forward(rows, {});
  EXPECT_TRUE(machine.stream.PassIsOver());
  const Row last = {.sequence = &sequence, .token = tokens.back(), .wants_logits = true};
  logits.resize(vocabulary);
  machine.transformer->Forward({&last, 1}, logits);
  EXPECT_TRUE(
      std::equal(logits.begin(), logits.end(), all.end() - static_cast<ptrdiff_t>(vocabulary)));
}

TEST_P(EveryGeometry, ASequenceInChangingCompanyIsTheSameAsAlone) {
  const TestModel model(config(), 57);
  const size_t vocabulary = config().vocabulary;
  constexpr size_t kSequences = 3;
  std::vector<std::vector<int32_t>> tokens;
  std::vector<std::vector<float>> alone;
  Machine machine(model, ComputeVariants()[3], 12);
  for (size_t s = 0; s < kSequences; ++s) {
    tokens.push_back(RandomTokens(config(), kPositions, 58 + s));
    SequenceState state(config(), kPositions);
    alone.push_back(machine.Run(state, tokens.back(), 1));
  }
  std::vector<SequenceState> states;
  for (size_t s = 0; s < kSequences; ++s) states.emplace_back(config(), kPositions);
  std::mt19937_64 random(59);
  for (;;) {
    std::vector<Row> rows;
    std::vector<float> expected;
    for (size_t s = 0; s < kSequences; ++s) {
      const size_t done = states[s].positions();
      const size_t count = std::min<size_t>(kPositions - done, random() % 5);
      for (size_t i = done; i < done + count; ++i) {
        rows.push_back({.sequence = &states[s], .token = tokens[s][i], .wants_logits = true});
      }
      const auto at = alone[s].begin() + static_cast<ptrdiff_t>(done * vocabulary);
      expected.insert(expected.end(), at, at + static_cast<ptrdiff_t>(count * vocabulary));
    }
    if (rows.empty()) {
      if (states[0].positions() + states[1].positions() + states[2].positions() ==
          kSequences * kPositions) {
        break;
      }
      continue;
    }
    std::vector<float> logits(expected.size());
    machine.transformer->Forward(rows, logits);
    ASSERT_EQ(logits, expected);
  }
}

// All bytes that a state holds.
std::vector<std::byte> BytesOf(SequenceState& state) {
  std::vector<std::byte> bytes;
  for (const std::span<std::byte> stretch : state.Stretches(state.positions())) {
    bytes.insert(bytes.end(), stretch.begin(), stretch.end());
  }
  return bytes;
}

// Two sequences at once: rows that turn out wrong are taken back, however many, and what is kept is
// what it would have been.
TEST_P(EveryGeometry, TentativeRowsThatAreNotAcceptedLeaveNoTrace) {
  constexpr size_t kMost = 4;
  const TestModel model(config(), 65);
  const size_t vocabulary = config().vocabulary;
  const auto width = static_cast<ptrdiff_t>(vocabulary);
  const std::vector<int32_t> tokens = RandomTokens(config(), kPositions, 66);
  const std::tuple<ComputeVariant, kernels::CacheType, kernels::StateType> cases[] = {
      {kPlain, kernels::CacheType::kF32, kernels::StateType::kF32},
      {kPlain, kernels::CacheType::kF32, kernels::StateType::kBf16},
      {ComputeVariants()[2], kernels::CacheType::kQ8, kernels::StateType::kF32},
      {ComputeVariants()[3], kernels::CacheType::kQ4, kernels::StateType::kBf16}};
  for (const auto& [variant, cache, state_type] : cases) {
    Machine machine(model, variant, 12);
    SequenceState plain(config(), kPositions, cache, 0, state_type);
    const std::vector<float> expected = machine.Run(plain, tokens, 1);
    std::vector<SequenceState> states;
    for (size_t s = 0; s < 2; ++s) {
      states.emplace_back(config(), kPositions, cache, kMost, state_type);
    }
    std::mt19937_64 random(67);
    while (states[0].positions() < kPositions || states[1].positions() < kPositions) {
      std::vector<Row> rows;
      std::vector<size_t> right(states.size(), 0);  // tentative rows that are what comes next
      std::vector<float> known;                     // logits of the rows before the first wrong one
      std::vector<size_t> known_rows;
      for (size_t s = 0; s < states.size(); ++s) {
        const size_t done = states[s].positions();
        const size_t left = kPositions - done;
        const size_t certain = std::min<size_t>(left, random() % 3);
        const size_t tentative = std::min<size_t>(left - certain, random() % (kMost + 1));
        const size_t wrong = random() % (tentative + 1);
        right[s] = wrong;
        for (size_t i = 0; i < certain + tentative; ++i) {
          const bool good = i < certain + wrong;
          const auto other = static_cast<int32_t>(random() % vocabulary);
          if (good) {
            const auto at = expected.begin() + static_cast<ptrdiff_t>(done + i) * width;
            known.insert(known.end(), at, at + width);
            known_rows.push_back(rows.size());
          }
          rows.push_back({.sequence = &states[s],
                          .token = good ? tokens[done + i] : other,
                          .wants_logits = true,
                          .tentative = i >= certain});
        }
      }
      if (rows.empty()) continue;
      std::vector<float> logits(rows.size() * vocabulary);
      machine.transformer->Forward(rows, logits);
      std::vector<float> found;
      for (const size_t row : known_rows) {
        const auto at = logits.begin() + static_cast<ptrdiff_t>(row) * width;
        found.insert(found.end(), at, at + width);
      }
      ASSERT_EQ(found, known) << variant.name;
      for (size_t s = 0; s < states.size(); ++s) {
        const size_t before = states[s].positions();
        const size_t most = std::min(right[s], states[s].tentative().count());
        const size_t accepted = random() % (most + 1);
        machine.transformer->Accept(states[s], accepted);
        EXPECT_EQ(states[s].positions(), before + accepted);
      }
    }
    for (SequenceState& state : states) EXPECT_EQ(BytesOf(state), BytesOf(plain)) << variant.name;
  }
}

// An operation that fails, at any point of a pass, is reported; the machine then works as before.
TEST_P(EveryGeometry, AFailureAtAnyPointIsReportedAndLeavesTheMachineWhole) {
  const TestModel model(config(), 61);
  const std::vector<int32_t> tokens = RandomTokens(config(), 3, 62);
  const ComputeVariant variant = {
      .name = "", .stream = {.tile_granules = 20, .shuffle_arrivals = true}, .parts = 2};
  Machine machine(model, variant, 3);
  SequenceState sequence(config(), 3);
  const std::vector<float> expected = machine.Run(sequence, tokens, 3);
  std::vector<Row> rows;
  for (const int32_t token : tokens) rows.push_back({&sequence, token, true});
  std::vector<float> logits(expected.size());
  uint64_t failures = 0;
  for (uint64_t n = 1;; ++n) {
    sequence.Reset();
    machine.stream.FailAt(machine.stream.operations() + n);
    try {
      machine.transformer->Forward(rows, logits);
      break;
    } catch (const Error& error) {
      ++failures;
      EXPECT_EQ(error.kind(), ErrorKind::kIo);
      EXPECT_EQ(sequence.positions(), 0U);
    }
    if (n % 7 != 0) continue;
    sequence.Reset();
    machine.stream.FailAt(0);
    machine.transformer->Forward(rows, logits);
    ASSERT_EQ(logits, expected) << "after a failure at operation " << n;
  }
  // No fewer than one for each matrix.
  EXPECT_GT(failures, 10 * config().layers);
  sequence.Reset();
  machine.stream.FailAt(0);
  machine.transformer->Forward(rows, logits);
  EXPECT_EQ(logits, expected);
}

INSTANTIATE_TEST_SUITE_P(Transformer, EveryGeometry, testing::ValuesIn(TestGeometries()),
                         GeometryName());

class OnePass : public testing::Test {
 protected:
  // The kind and message of the Error that a pass throws.
  std::pair<ErrorKind, std::string> ErrorOf(std::span<const Row> rows) {
    const auto wanted = static_cast<size_t>(std::ranges::count_if(rows, &Row::wants_logits));
    std::vector<float> logits(wanted * model_.config().vocabulary);
    try {
      machine_.transformer->Forward(rows, logits);
    } catch (const Error& error) {
      return {error.kind(), error.what()};
    }
    ADD_FAILURE() << "no error";
    return {};
  }

  TestModel model_{TestConfig("KimiK3Like"), 71};
  Machine machine_{model_, kPlain, 6};
  SequenceState a_{model_.config(), 5}, b_{model_.config(), 3};
};

TEST_F(OnePass, TentativeRowsOutOfPlaceOrNumberAreRefused) {
  std::vector<float> none;
  SequenceState sequence(model_.config(), 5, kernels::CacheType::kF32, 1);
  const Row certain = {.sequence = &sequence, .token = 1};
  const Row tentative = {.sequence = &sequence, .token = 1, .tentative = true};
  const Row other = {.sequence = &a_, .token = 1, .tentative = true};
  for (const std::vector<Row>& rows :
       {std::vector<Row>{tentative, certain}, std::vector<Row>{certain, tentative, tentative},
        std::vector<Row>{other}}) {
    EXPECT_THROW(machine_.transformer->Forward(rows, none), std::logic_error);
  }
  machine_.transformer->Forward(std::vector<Row>{certain, tentative}, none);
  EXPECT_EQ(sequence.positions(), 1U);
  EXPECT_THROW(machine_.transformer->Accept(sequence, 2), std::logic_error);
  machine_.transformer->Accept(sequence, 1);
  EXPECT_EQ(sequence.positions(), 2U);
  EXPECT_THROW(machine_.transformer->Accept(sequence, 1), std::logic_error);
}

TEST_F(OnePass, AFullContextIsRefusedBeforeAnythingIsChanged) {
  const std::vector<int32_t> tokens = {1, 2, 3, 4};
  machine_.Run(a_, tokens, 4);
  const std::vector<std::byte> state(a_.KdaState(0).begin(), a_.KdaState(0).end());
  const uint64_t operations = machine_.stream.operations();
  const std::vector<Row> rows = {{&b_, 1, true}, {&a_, 1, true}, {&a_, 1, true}};
  const auto [kind, message] = ErrorOf(rows);
  EXPECT_EQ(kind, ErrorKind::kRun);
  EXPECT_NE(message.find("context is full"), std::string::npos) << message;
  EXPECT_EQ(machine_.stream.operations(), operations);
  EXPECT_EQ(a_.positions(), 4U);
  EXPECT_EQ(b_.positions(), 0U);
  EXPECT_TRUE(std::ranges::equal(a_.KdaState(0), state));
  EXPECT_EQ(machine_.Run(a_, std::vector<int32_t>{1}, 1).size(), model_.config().vocabulary);
  EXPECT_EQ(a_.positions(), a_.max_positions());
}

TEST_F(OnePass, ATokenOutsideTheVocabularyIsRefusedBeforeAnythingIsChanged) {
  const uint64_t operations = machine_.stream.operations();
  for (const int32_t token : {-1, 61, std::numeric_limits<int32_t>::max()}) {
    const std::vector<Row> rows = {{&a_, 60, true}, {&a_, token, true}};
    const auto [kind, message] = ErrorOf(rows);
    EXPECT_EQ(kind, ErrorKind::kRun);
    EXPECT_NE(message.find("token " + std::to_string(token)), std::string::npos) << message;
  }
  EXPECT_EQ(machine_.stream.operations(), operations);
  EXPECT_EQ(a_.positions(), 0U);
}

TEST_F(OnePass, MisuseIsAProgrammingErrorBeforeAnythingIsChanged) {
  const uint64_t operations = machine_.stream.operations();
  std::vector<float> logits(model_.config().vocabulary);
  Transformer& transformer = *machine_.transformer;
  EXPECT_THROW(transformer.Forward({}, {}), std::logic_error);
  EXPECT_THROW(transformer.Forward(std::vector<Row>(7, Row{&a_, 1, false}), {}), std::logic_error);
  EXPECT_THROW(transformer.Forward(std::vector<Row>{{&a_, 1, true}, {&b_, 1}, {&a_, 1}}, logits),
               std::logic_error);
  EXPECT_THROW(transformer.Forward(std::vector<Row>{{&a_, 1, true}, {&a_, 1, true}}, logits),
               std::logic_error);
  EXPECT_THROW(transformer.Forward(std::vector<Row>{{&a_, 1, false}}, logits), std::logic_error);
  EXPECT_EQ(machine_.stream.operations(), operations);
  EXPECT_EQ(a_.positions(), 0U);
}

TEST_F(OnePass, LogitsThatAreNotFiniteAreAnErrorAndNoToken) {
  std::vector<float> head = model_.Get(Role::kHead).values;
  head[17] = HUGE_VALF;
  model_.Set(Role::kHead, 0, 0, head);
  const std::vector<Row> rows = {{&a_, 3, true}};
  const auto [kind, message] = ErrorOf(rows);
  EXPECT_EQ(kind, ErrorKind::kRun);
  EXPECT_NE(message.find("not finite"), std::string::npos) << message;
}

TEST_F(OnePass, ARouterThatSeesNoFiniteNumberNamesItsLayer) {
  std::vector<float> down = model_.Get(Role::kDenseDown, 0).values;
  down[0] = NAN;
  model_.Set(Role::kDenseDown, 0, 0, down);
  const std::vector<Row> rows = {{&b_, 3, false}, {&a_, 3, false}};
  const auto [kind, message] = ErrorOf(rows);
  EXPECT_EQ(kind, ErrorKind::kRun);
  EXPECT_NE(message.find("layer 1, position 0"), std::string::npos) << message;
}

TEST_F(OnePass, TheObserverSeesEveryLayerInOrder) {
  std::vector<size_t> seen;
  machine_.transformer->SetLayerObserver([&](size_t layer) { seen.push_back(layer); });
  machine_.Run(a_, std::vector<int32_t>{1, 2}, 1);
  EXPECT_EQ(seen, (std::vector<size_t>{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}));
}

TEST_F(OnePass, AnObserverMayEndThePassAtAnyLayer) {
  const std::vector<int32_t> tokens = {5, 6, 7};
  const std::vector<float> expected = machine_.Run(a_, tokens, 3);
  struct Enough {};
  for (size_t last = 0; last < model_.config().layers; ++last) {
    a_.Reset();
    machine_.transformer->SetLayerObserver([&](size_t layer) {
      if (layer == last) throw Enough();
    });
    const std::vector<Row> rows = {{&a_, 5, false}, {&a_, 6, false}};
    EXPECT_THROW(machine_.transformer->Forward(rows, {}), Enough);
    EXPECT_EQ(a_.positions(), 0U);
    machine_.transformer->SetLayerObserver({});
    a_.Reset();
    EXPECT_EQ(machine_.Run(a_, tokens, 3), expected);
  }
}

}  // namespace
}  // namespace kimi_k3
