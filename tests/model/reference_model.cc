// The model in double precision, written from docs/model.md section 3 line by line, slowly.
#include "model/reference_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace kimi_k3 {
namespace {

constexpr double kLatentEpsilon = 1e-6;

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double SumOfSquares(const Numbers& x) {
  return std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
}

Numbers Softmax(Numbers scores) {
  const double largest = *std::ranges::max_element(scores);
  for (double& score : scores) score = std::exp(score - largest);
  const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
  for (double& score : scores) score /= sum;
  return scores;
}

Numbers& operator+=(Numbers& y, const Numbers& x) {
  for (size_t i = 0; i < y.size(); ++i) y[i] += x[i];
  return y;
}

Numbers Part(const Numbers& x, size_t first, size_t count) {
  const auto begin = x.begin() + static_cast<ptrdiff_t>(first);
  return {begin, begin + static_cast<ptrdiff_t>(count)};
}

// Indices by descending score, the lower one first among equals.
std::vector<size_t> Ranking(const Numbers& scores) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  return order;
}

}  // namespace

ReferenceSequence::ReferenceSequence(const TestModel& model)
    : model_(model), config_(model.config()), layers_(config_.layers) {
  const KdaConfig& kda = config_.kda;
  for (Layer& layer : layers_) layer.state.assign(kda.heads * kda.head_dim * kda.head_dim, 0.0);
}

Numbers ReferenceSequence::Multiply(Role role, size_t layer, const Numbers& x,
                                    size_t expert) const {
  const TestTensor& w = model_.Get(role, layer, expert);
  Numbers y(w.rows);
  for (size_t row = 0; row < w.rows; ++row) {
    y[row] = std::inner_product(x.begin(), x.end(), w.Row(row), 0.0);
  }
  return y;
}

Numbers ReferenceSequence::Norm(Role role, size_t layer, const Numbers& x, double epsilon) const {
  const TestTensor& w = model_.Get(role, layer);
  const double scale = 1 / std::sqrt(SumOfSquares(x) / static_cast<double>(x.size()) + epsilon);
  Numbers y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = static_cast<double>(w.values[i]) * x[i] * scale;
  return y;
}

Numbers ReferenceSequence::AttentionResidual(const std::vector<Numbers>& blocks, const Numbers& p,
                                             Role norm, Role proj, size_t layer) const {
  const TestTensor& norm_weights = model_.Get(norm, layer);
  const TestTensor& proj_weights = model_.Get(proj, layer);
  std::vector<Numbers> sources = blocks;
  sources.push_back(p);
  Numbers scores;
  for (const Numbers& v : sources) {
    const double scale = 1 / std::sqrt(SumOfSquares(v) / static_cast<double>(v.size()) +
                                       static_cast<double>(config_.rms_epsilon));
    double score = 0;
    for (size_t j = 0; j < v.size(); ++j) {
      score += v[j] * scale * static_cast<double>(norm_weights.values[j]) *
               static_cast<double>(proj_weights.values[j]);
    }
    scores.push_back(score);
  }
  const Numbers weights = Softmax(scores);
  Numbers result(p.size(), 0.0);
  for (size_t s = 0; s < sources.size(); ++s) {
    for (size_t j = 0; j < result.size(); ++j) result[j] += weights[s] * sources[s][j];
  }
  return result;
}

Numbers ReferenceSequence::Step(int32_t token) {
  const TestTensor& embedding = model_.Get(Role::kEmbedding);
  const float* row = embedding.Row(static_cast<size_t>(token));
  Numbers p(row, row + embedding.columns);
  std::vector<Numbers> blocks;
  const double epsilon = static_cast<double>(config_.rms_epsilon);
  const size_t block = config_.attn_res_block;
  for (size_t l = 0; l < config_.layers; ++l) {
    Numbers x = p;
    if (!blocks.empty()) {
      x = AttentionResidual(blocks, p, Role::kAttentionResNorm, Role::kAttentionResProj, l);
    }
    const bool boundary = block != 0 && l % block == 0;
    if (boundary) blocks.push_back(p);
    const Numbers normed = Norm(Role::kInputNorm, l, x, epsilon);
    const Numbers a = config_.IsMla(l) ? Mla(l, normed) : Kda(l, normed);
    if (boundary) {
      p = a;
    } else {
      p += a;
    }
    x = block == 0 ? p : AttentionResidual(blocks, p, Role::kMlpResNorm, Role::kMlpResProj, l);
    const Numbers mlp_normed = Norm(Role::kPostAttentionNorm, l, x, epsilon);
    p += config_.IsDense(l) ? Dense(l, mlp_normed) : Moe(l, mlp_normed);
  }
  if (block != 0) p = AttentionResidual(blocks, p, Role::kOutputResNorm, Role::kOutputResProj, 0);
  return Multiply(Role::kHead, 0, Norm(Role::kFinalNorm, 0, p, epsilon));
}

// The last tap meets the current position; before the first position there are zeros.
Numbers ReferenceSequence::Convolve(size_t layer, size_t m, Role taps, const Numbers& input) {
  std::vector<Numbers>& inputs = layers_[layer].conv_inputs[m];
  inputs.push_back(input);
  const TestTensor& w = model_.Get(taps, layer);
  Numbers y(input.size());
  for (size_t c = 0; c < y.size(); ++c) {
    double sum = 0;
    for (size_t back = 0; back < w.columns && back < inputs.size(); ++back) {
      sum +=
          static_cast<double>(w.Row(c)[w.columns - 1 - back]) * inputs[inputs.size() - 1 - back][c];
    }
    y[c] = sum * Sigmoid(sum);
  }
  return y;
}

Numbers ReferenceSequence::Kda(size_t layer, const Numbers& x) {
  const KdaConfig& kda = config_.kda;
  const size_t d = kda.head_dim;
  const Numbers q = Convolve(layer, 0, Role::kKdaQConv, Multiply(Role::kKdaQ, layer, x));
  const Numbers k = Convolve(layer, 1, Role::kKdaKConv, Multiply(Role::kKdaK, layer, x));
  const Numbers v = Convolve(layer, 2, Role::kKdaVConv, Multiply(Role::kKdaV, layer, x));
  Numbers g = Multiply(Role::kKdaFB, layer, Multiply(Role::kKdaFA, layer, x));
  for (size_t i = 0; i < g.size(); ++i) {
    g[i] += static_cast<double>(model_.Get(Role::kKdaDtBias, layer).values[i]);
  }
  const Numbers beta = Multiply(Role::kKdaB, layer, x);
  const Numbers gate = kda.full_rank_gate
                           ? Multiply(Role::kKdaG, layer, x)
                           : Multiply(Role::kKdaGB, layer, Multiply(Role::kKdaGA, layer, x));
  Numbers y;
  for (size_t h = 0; h < kda.heads; ++h) {
    Numbers qh = Part(q, h * d, d);
    Numbers kh = Part(k, h * d, d);
    const double q_norm = std::sqrt(SumOfSquares(qh) + 1e-6) * std::sqrt(static_cast<double>(d));
    const double k_norm = std::sqrt(SumOfSquares(kh) + 1e-6);
    for (double& number : qh) number /= q_norm;
    for (double& number : kh) number /= k_norm;
    const double rate = std::exp(static_cast<double>(model_.Get(Role::kKdaALog, layer).values[h]));
    double* s = layers_[layer].state.data() + h * d * d;
    for (size_t i = 0; i < d; ++i) {
      const double gi = g[h * d + i];
      const double decay =
          kda.gate_lower_bound
              ? std::exp(static_cast<double>(*kda.gate_lower_bound) * Sigmoid(rate * gi))
              : std::exp(-rate * (gi > 20 ? gi : std::log1p(std::exp(gi))));
      for (size_t j = 0; j < d; ++j) s[i * d + j] *= decay;
    }
    Numbers o(d, 0.0);
    for (size_t j = 0; j < d; ++j) {
      double predicted = 0;
      for (size_t i = 0; i < d; ++i) predicted += kh[i] * s[i * d + j];
      const double delta = Sigmoid(beta[h]) * (v[h * d + j] - predicted);
      for (size_t i = 0; i < d; ++i) s[i * d + j] += kh[i] * delta;
      for (size_t i = 0; i < d; ++i) o[j] += qh[i] * s[i * d + j];
    }
    o = Norm(Role::kKdaONorm, layer, o, static_cast<double>(config_.rms_epsilon));
    for (size_t j = 0; j < d; ++j) y.push_back(o[j] * Sigmoid(gate[h * d + j]));
  }
  return Multiply(Role::kKdaO, layer, y);
}

Numbers ReferenceSequence::Mla(size_t layer, const Numbers& x) {
  const MlaConfig& mla = config_.mla;
  Numbers q;
  if (mla.q_lora_rank == 0) {
    q = Multiply(Role::kMlaQ, layer, x);
  } else {
    const Numbers low = Multiply(Role::kMlaQA, layer, x);
    q = Multiply(Role::kMlaQB, layer, Norm(Role::kMlaQANorm, layer, low, kLatentEpsilon));
  }
  const Numbers c = Multiply(Role::kMlaKvA, layer, x);
  Numbers cached = Norm(Role::kMlaKvANorm, layer, Part(c, 0, mla.kv_lora_rank), kLatentEpsilon);
  cached.insert(cached.end(), c.begin() + static_cast<ptrdiff_t>(mla.kv_lora_rank), c.end());
  std::vector<Numbers>& latents = layers_[layer].latents;
  latents.push_back(cached);

  const size_t nope = mla.qk_nope_head_dim;
  const double scale = 1 / std::sqrt(static_cast<double>(mla.qk_head_dim()));
  std::vector<Numbers> keys_and_values;
  for (const Numbers& row : latents) {
    keys_and_values.push_back(Multiply(Role::kMlaKvB, layer, Part(row, 0, mla.kv_lora_rank)));
  }
  Numbers o;
  for (size_t h = 0; h < mla.heads; ++h) {
    const double* qh = q.data() + h * mla.qk_head_dim();
    const size_t at = h * (nope + mla.v_head_dim);
    Numbers scores;
    for (size_t t = 0; t < latents.size(); ++t) {
      const double* key = keys_and_values[t].data() + at;
      double score = std::inner_product(qh, qh + nope, key, 0.0);
      for (size_t j = 0; j < mla.qk_rope_head_dim; ++j) {
        score += qh[nope + j] * latents[t][mla.kv_lora_rank + j];
      }
      scores.push_back(score * scale);
    }
    const Numbers weights = Softmax(scores);
    for (size_t j = 0; j < mla.v_head_dim; ++j) {
      double sum = 0;
      for (size_t t = 0; t < latents.size(); ++t) {
        sum += weights[t] * keys_and_values[t][at + nope + j];
      }
      o.push_back(sum);
    }
  }
  if (mla.output_gate) {
    const Numbers gate = Multiply(Role::kMlaG, layer, x);
    for (size_t i = 0; i < o.size(); ++i) o[i] *= Sigmoid(gate[i]);
  }
  return Multiply(Role::kMlaO, layer, o);
}

Numbers ReferenceSequence::Activate(const Numbers& gate, const Numbers& up) const {
  const double b = static_cast<double>(config_.situ_beta);
  const double c = static_cast<double>(config_.situ_linear_beta);
  Numbers y(gate.size());
  for (size_t i = 0; i < y.size(); ++i) {
    const double g = gate[i];
    const double u = up[i];
    if (config_.activation == Activation::kSilu) {
      y[i] = g * Sigmoid(g) * u;
    } else {
      y[i] = b * std::tanh(g / b) * Sigmoid(g) * (c == 0 ? u : c * std::tanh(u / c));
    }
  }
  return y;
}

Numbers ReferenceSequence::Dense(size_t layer, const Numbers& x) const {
  return Multiply(
      Role::kDenseDown, layer,
      Activate(Multiply(Role::kDenseGate, layer, x), Multiply(Role::kDenseUp, layer, x)));
}

ReferenceSequence::Routing ReferenceSequence::Route(size_t layer, const Numbers& x) const {
  const MoeConfig& moe = config_.moe;
  Numbers s = Multiply(Role::kRouter, layer, x);
  if (moe.softmax_router) {
    s = Softmax(s);
  } else {
    for (double& score : s) score = Sigmoid(score);
  }
  Numbers biased = s;
  for (size_t e = 0; e < s.size(); ++e) {
    biased[e] += static_cast<double>(model_.Get(Role::kRouterBias, layer).values[e]);
  }
  if (moe.groups > 1 && moe.groups_kept < moe.groups) {
    const size_t size = moe.experts / moe.groups;
    Numbers group_scores;
    for (size_t g = 0; g < moe.groups; ++g) {
      Numbers group = Part(biased, g * size, size);
      std::ranges::sort(group, std::greater<>());
      group_scores.push_back(size == 1 ? group[0] : group[0] + group[1]);
    }
    const std::vector<size_t> order = Ranking(group_scores);
    for (size_t i = moe.groups_kept; i < order.size(); ++i) {
      std::fill_n(biased.begin() + static_cast<ptrdiff_t>(order[i] * size), size,
                  -std::numeric_limits<double>::infinity());
    }
  }
  Routing routing;
  routing.experts = Ranking(biased);
  routing.experts.resize(moe.experts_per_token);
  for (const size_t e : routing.experts) routing.weights.push_back(s[e]);
  const double sum = std::accumulate(routing.weights.begin(), routing.weights.end(), 0.0) + 1e-20;
  for (double& weight : routing.weights) {
    if (moe.renormalize && moe.experts_per_token > 1) weight /= sum;
    weight *= static_cast<double>(moe.scaling);
  }
  return routing;
}

Numbers ReferenceSequence::Moe(size_t layer, const Numbers& x) const {
  const MoeConfig& moe = config_.moe;
  const Routing routing = Route(layer, x);
  const Numbers z = moe.latent != 0 ? Multiply(Role::kLatentDown, layer, x) : x;
  Numbers y(z.size(), 0.0);
  for (size_t i = 0; i < routing.experts.size(); ++i) {
    const size_t e = routing.experts[i];
    const Numbers out = Multiply(
        Role::kExpertDown, layer,
        Activate(Multiply(Role::kExpertGate, layer, z, e), Multiply(Role::kExpertUp, layer, z, e)),
        e);
    for (size_t j = 0; j < y.size(); ++j) y[j] += routing.weights[i] * out[j];
  }
  if (moe.latent_norm) {
    y = Norm(Role::kLatentNorm, layer, y, static_cast<double>(config_.rms_epsilon));
  }
  if (moe.latent != 0) y = Multiply(Role::kLatentUp, layer, y);
  if (moe.shared_experts != 0) {
    y += Multiply(
        Role::kSharedDown, layer,
        Activate(Multiply(Role::kSharedGate, layer, x), Multiply(Role::kSharedUp, layer, x)));
  }
  return y;
}

double RelativeError(const float* actual, const Numbers& expected) {
  double difference = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double d = static_cast<double>(actual[i]) - expected[i];
    difference += d * d;
  }
  return std::sqrt(difference / SumOfSquares(expected));
}

}  // namespace kimi_k3
