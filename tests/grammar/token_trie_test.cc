#include "grammar/token_trie.h"

#include "grammar/grammar_test_support.h"
#include "text/text_test_support.h"

namespace kimi_k3::grammar {
namespace {

void ExpectHoldsAllTokens(const Tokenizer& tokenizer) {
  const TokenTrie trie(tokenizer);
  std::string bytes;
  size_t tokens = 0;
  for (size_t i = 0; i < trie.nodes().size(); ++i) {
    const TokenTrie::Node& node = trie.nodes()[i];
    ASSERT_GT(node.after, i);
    ASSERT_LE(node.after, trie.nodes().size());
    ASSERT_LT(node.depth, trie.longest());
    // All nodes below lie between this one and `after`.
    ASSERT_TRUE(node.after == trie.nodes().size() || trie.nodes()[node.after].depth <= node.depth);
    ASSERT_LE(node.depth, bytes.size());
    bytes.resize(node.depth);
    bytes += static_cast<char>(node.byte);
    if (node.token == TokenTrie::kNoToken) continue;
    ASSERT_EQ(tokenizer.TokenBytes(node.token), bytes);
    ++tokens;
  }
  EXPECT_EQ(tokens, static_cast<size_t>(tokenizer.first_special_id()));
}

TEST(TokenTrie, HoldsEachOrdinaryTokenOnce) { ExpectHoldsAllTokens(SmallTokenizer()); }

TEST(TokenTrie, HoldsThePublishedVocabulary) {
  SKIP_WITHOUT_SHARED_DATA();
  ExpectHoldsAllTokens(RealTokenizer());
}

}  // namespace
}  // namespace kimi_k3::grammar
