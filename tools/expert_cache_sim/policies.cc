// Policies that say which expert gives way, replayed over the traffic of decoding.
#include "policies.h"

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "residency/expert_cache.h"

namespace kimi_k3 {
namespace {

using Key = std::pair<size_t, int32_t>;

// What a simple cache knows of an expert that it holds.
struct Entry {
  uint64_t last_step = 0;
  uint64_t uses = 0;
};

// Replays a cache of `slots` entries that drives out the one for which `worth` is least; experts of
// the request in hand stay.
uint64_t ReplaySimple(const Trace& trace, size_t slots,
                      const std::function<double(const Key&, const Entry&)>& worth) {
  std::map<Key, Entry> held;
  std::map<Key, uint64_t> uses;
  uint64_t hits = 0;
  for (uint64_t now = 1; now <= trace.steps.size(); ++now) {
    const TraceStep& step = trace.steps[now - 1];
    const bool counts = now > trace.layers;
    for (const int32_t expert : step.experts) {
      const auto found = held.find({step.layer, expert});
      ++uses[{step.layer, expert}];
      if (found == held.end()) continue;
      found->second.last_step = now;
      hits += counts ? 1 : 0;
    }
    for (const int32_t expert : step.experts) {
      const Key key = {step.layer, expert};
      if (held.contains(key)) continue;
      if (held.size() >= slots) {
        auto victim = held.end();
        double least = 0;
        for (auto i = held.begin(); i != held.end(); ++i) {
          if (i->second.last_step == now) continue;
          const double value = worth(i->first, {i->second.last_step, uses[i->first]});
          if (victim == held.end() || value < least) {
            victim = i;
            least = value;
          }
        }
        if (victim == held.end()) continue;
        held.erase(victim);
      }
      held[key] = {now, 0};
    }
  }
  return hits;
}

uint64_t ReplayLru(const Trace& trace, size_t slots) {
  return ReplaySimple(trace, slots, [](const Key&, const Entry& entry) {
    return static_cast<double>(entry.last_step);
  });
}

uint64_t ReplayLfu(const Trace& trace, size_t slots) {
  return ReplaySimple(trace, slots, [](const Key&, const Entry& entry) {
    return static_cast<double>(entry.uses) + static_cast<double>(entry.last_step) * 1e-9;
  });
}

uint64_t ReplayRandom(const Trace& trace, size_t slots) {
  std::mt19937 random(1);
  return ReplaySimple(trace, slots,
                      [&](const Key&, const Entry&) { return static_cast<double>(random()); });
}

// Belady: drives out what is used last, and does not take in what is used later than all it has.
uint64_t ReplayOptimal(const Trace& trace, size_t slots) {
  std::map<Key, std::vector<uint64_t>> uses;
  for (uint64_t now = 0; now < trace.steps.size(); ++now) {
    for (const int32_t e : trace.steps[now].experts)
      uses[{trace.steps[now].layer, e}].push_back(now);
  }
  constexpr uint64_t kNever = ~uint64_t{0};
  const auto next_use = [&](const Key& key, uint64_t now) {
    const auto& all = uses[key];
    const auto next = std::upper_bound(all.begin(), all.end(), now);
    return next == all.end() ? kNever : *next;
  };
  std::map<Key, uint64_t> held;  // when it is used next
  std::map<std::pair<uint64_t, Key>, bool> by_next;
  uint64_t hits = 0;
  for (uint64_t now = 0; now < trace.steps.size(); ++now) {
    for (const int32_t e : trace.steps[now].experts) {
      const Key key = {trace.steps[now].layer, e};
      const uint64_t next = next_use(key, now);
      const auto found = held.find(key);
      if (found != held.end()) {
        hits += now >= trace.layers ? 1 : 0;
        by_next.erase({found->second, key});
      } else if (held.size() >= slots) {
        const auto [latest, victim] = by_next.rbegin()->first;
        if (latest <= next) continue;
        by_next.erase({latest, victim});
        held.erase(victim);
      }
      held[key] = next;
      by_next[{next, key}] = true;
    }
  }
  return hits;
}

// The engine's cache, driven as ExpertLoader drives it.
uint64_t ReplayShares(const Trace& trace, size_t slots) {
  ExpertCache cache({.moe_layers = trace.layers,
                     .experts = trace.experts,
                     .experts_per_token = trace.per_token,
                     .passing_slots = trace.per_token,
                     .cached_slots = slots});
  uint64_t hits = 0;
  for (size_t now = 0; now < trace.steps.size(); ++now) {
    const TraceStep& step = trace.steps[now];
    std::vector<size_t> claimed;
    std::vector<size_t> missing;
    for (const int32_t expert : step.experts) {
      const auto slot = cache.Find(step.layer, static_cast<size_t>(expert));
      if (slot) {
        cache.Claim(*slot);
        claimed.push_back(*slot);
        hits += now >= trace.layers ? 1 : 0;
      } else {
        missing.push_back(static_cast<size_t>(expert));
      }
    }
    for (const size_t expert : missing) {
      const auto slot = cache.Take(step.layer, expert);
      if (slot) claimed.push_back(*slot);
    }
    for (const size_t slot : claimed) cache.Release(slot);
  }
  return hits;
}

}  // namespace

std::vector<Policy> AllPolicies() {
  return {{"shares", ReplayShares},
          {"LRU", ReplayLru},
          {"LFU", ReplayLfu},
          {"random", ReplayRandom},
          {"optimal", ReplayOptimal}};
}

}  // namespace kimi_k3
