// What matrix products do not cover and what a compiler of elementwise graphs does slowly or not at
// all, forward and backward: the short causal convolution with SiLU, the gated delta rule, SiTU.
#include <math.h>
#include <stdint.h>
#include <string.h>

#ifndef HEAD_DIM
#define HEAD_DIM 32
#endif
#ifndef TAPS
#define TAPS 4
#endif

enum { kDim = HEAD_DIM, kTaps = TAPS, kSpan = 16 };

// x, y: [batch, length, channels]; taps: [kTaps][channels], the last one for the current position.
void ConvSilu(int batch, int length, int channels, const float* x, const float* taps, float* y) {
  for (int b = 0; b < batch; ++b) {
    for (int t = 0; t < length; ++t) {
      float* out = y + ((long)b * length + t) * channels;
      memset(out, 0, sizeof(float) * channels);
      for (int j = 0; j < kTaps; ++j) {
        int s = t - (kTaps - 1) + j;
        if (s < 0) continue;
        const float* in = x + ((long)b * length + s) * channels;
        const float* tap = taps + (long)j * channels;
        for (int c = 0; c < channels; ++c) out[c] += tap[c] * in[c];
      }
      for (int c = 0; c < channels; ++c) out[c] = out[c] / (1.0f + expf(-out[c]));
    }
  }
}

// Adds to dtaps; writes dx. scratch: [length, channels].
void ConvSiluBackward(int batch, int length, int channels, const float* x, const float* taps, const float* dy,
                      float* dx, float* dtaps, float* scratch) {
  for (int b = 0; b < batch; ++b) {
    const float* xb = x + (long)b * length * channels;
    const float* dyb = dy + (long)b * length * channels;
    float* dxb = dx + (long)b * length * channels;
    for (int t = 0; t < length; ++t) {
      float* pre = scratch + (long)t * channels;
      memset(pre, 0, sizeof(float) * channels);
      for (int j = 0; j < kTaps; ++j) {
        int s = t - (kTaps - 1) + j;
        if (s < 0) continue;
        for (int c = 0; c < channels; ++c) pre[c] += taps[(long)j * channels + c] * xb[(long)s * channels + c];
      }
      for (int c = 0; c < channels; ++c) {
        float g = 1.0f / (1.0f + expf(-pre[c]));
        pre[c] = dyb[(long)t * channels + c] * g * (1.0f + pre[c] * (1.0f - g));
      }
    }
    memset(dxb, 0, sizeof(float) * length * channels);
    for (int t = 0; t < length; ++t) {
      const float* dpre = scratch + (long)t * channels;
      for (int j = 0; j < kTaps; ++j) {
        int s = t - (kTaps - 1) + j;
        if (s < 0) continue;
        for (int c = 0; c < channels; ++c) {
          dxb[(long)s * channels + c] += taps[(long)j * channels + c] * dpre[c];
          dtaps[(long)j * channels + c] += xb[(long)s * channels + c] * dpre[c];
        }
      }
    }
  }
}

// One position: decays S [key][value], corrects it by the delta rule, reads it.
static inline void Advance(float* S, const float* q, const float* k, const float* v, const float* a, float beta,
                           float* o) {
  float u[kDim] = {0}, d[kDim], out[kDim] = {0};
  for (int i = 0; i < kDim; ++i) {
    for (int j = 0; j < kDim; ++j) {
      S[i * kDim + j] *= a[i];
      u[j] += k[i] * S[i * kDim + j];
    }
  }
  for (int j = 0; j < kDim; ++j) d[j] = beta * (v[j] - u[j]);
  for (int i = 0; i < kDim; ++i) {
    for (int j = 0; j < kDim; ++j) {
      S[i * kDim + j] += k[i] * d[j];
      out[j] += q[i] * S[i * kDim + j];
    }
  }
  memcpy(o, out, sizeof(out));
}

// q, k, v, a, o: [batch, length, heads, kDim]; beta: [batch, length, heads].
// checkpoints: [batch, heads, ceil(length / kSpan), kDim, kDim], the state before each span.
void Delta(int batch, int length, int heads, const float* q, const float* k, const float* v, const float* a,
           const float* beta, float* o, float* checkpoints) {
  int spans = (length + kSpan - 1) / kSpan;
  for (int b = 0; b < batch; ++b) {
    for (int h = 0; h < heads; ++h) {
      float S[kDim * kDim] = {0};
      for (int t = 0; t < length; ++t) {
        long row = ((long)b * length + t) * heads + h, at = row * kDim;
        if (t % kSpan == 0) {
          memcpy(checkpoints + (((long)b * heads + h) * spans + t / kSpan) * kDim * kDim, S, sizeof(S));
        }
        Advance(S, q + at, k + at, v + at, a + at, beta[row], o + at);
      }
    }
  }
}

// The backward pass keeps states as [value][key]: most of its sums then run over rows.

// The state after one position from the one before; miss is v minus what the state predicted.
static inline void AdvanceTransposed(const float* before, float* after, const float* k, const float* v, const float* a,
                                     float beta, float* miss) {
  for (int j = 0; j < kDim; ++j) {
    float u = 0;
    for (int i = 0; i < kDim; ++i) {
      after[j * kDim + i] = before[j * kDim + i] * a[i];
      u += k[i] * after[j * kDim + i];
    }
    miss[j] = v[j] - u;
    for (int i = 0; i < kDim; ++i) after[j * kDim + i] += k[i] * (beta * miss[j]);
  }
}

// The gradient of one position. On entry dS is the gradient of the state after it, on return of the
// state before it.
static inline void Retreat(float* dS, const float* before, const float* after, const float* q, const float* k,
                           const float* a, float beta, const float* miss, const float* dout, float* dq, float* dk,
                           float* dv, float* da, float* dbeta) {
  float sum_q[kDim] = {0}, sum_k[kDim] = {0}, sum_decayed[kDim] = {0}, sum_a[kDim] = {0}, sum_beta = 0;
  for (int j = 0; j < kDim; ++j) {
    float* row = dS + j * kDim;
    const float* s = before + j * kDim;
    float dd = 0;
    for (int i = 0; i < kDim; ++i) {
      row[i] += q[i] * dout[j];
      sum_q[i] += after[j * kDim + i] * dout[j];
      sum_k[i] += row[i] * (beta * miss[j]);
      dd += k[i] * row[i];
    }
    sum_beta += dd * miss[j];
    dv[j] = beta * dd;
    for (int i = 0; i < kDim; ++i) {
      float grad = row[i] - k[i] * dv[j];
      sum_decayed[i] += s[i] * dv[j];
      sum_a[i] += grad * s[i];
      row[i] = grad * a[i];
    }
  }
  for (int i = 0; i < kDim; ++i) {
    dq[i] = sum_q[i];
    dk[i] = sum_k[i] - a[i] * sum_decayed[i];
    da[i] = sum_a[i];
  }
  *dbeta = sum_beta;
}

static void Transpose(const float* in, float* out) {
  for (int i = 0; i < kDim; ++i) {
    for (int j = 0; j < kDim; ++j) out[j * kDim + i] = in[i * kDim + j];
  }
}

void DeltaBackward(int batch, int length, int heads, const float* q, const float* k, const float* v, const float* a,
                   const float* beta, const float* checkpoints, const float* dout, float* dq, float* dk, float* dv,
                   float* da, float* dbeta) {
  int spans = (length + kSpan - 1) / kSpan;
  float states[kSpan + 1][kDim * kDim], miss[kSpan][kDim];
  for (int b = 0; b < batch; ++b) {
    for (int h = 0; h < heads; ++h) {
      float dS[kDim * kDim] = {0};
      for (int span = spans - 1; span >= 0; --span) {
        int begin = span * kSpan, count = length - begin < kSpan ? length - begin : kSpan;
        Transpose(checkpoints + (((long)b * heads + h) * spans + span) * kDim * kDim, states[0]);
        for (int t = 0; t < count; ++t) {
          long row = ((long)b * length + begin + t) * heads + h, at = row * kDim;
          AdvanceTransposed(states[t], states[t + 1], k + at, v + at, a + at, beta[row], miss[t]);
        }
        for (int t = count - 1; t >= 0; --t) {
          long row = ((long)b * length + begin + t) * heads + h, at = row * kDim;
          Retreat(dS, states[t], states[t + 1], q + at, k + at, a + at, beta[row], miss[t], dout + at, dq + at, dk + at,
                  dv + at, da + at, dbeta + row);
        }
      }
    }
  }
}

static inline float Widen(uint16_t x) {
  union {
    uint32_t bits;
    float value;
  } u = {(uint32_t)x << 16};
  return u.value;
}

static inline uint16_t Round(float x) {
  union {
    float value;
    uint32_t bits;
  } u = {x};
  return (uint16_t)((u.bits + 0x7fff + ((u.bits >> 16) & 1)) >> 16);
}

// With t = exp(-2 g / beta) and w = exp(-2 u / linear_beta): tanh(g / beta) = (1 - t) / (1 + t), and likewise
// for u; for beta = 4 sigmoid(g) = 1 / (1 + t^2), so two exponentials and one division do.
// The bounds keep the product of the three denominators finite; beyond them the gate is zero.
enum { kSituBeta = 4 };

static inline float Bounded(float x, float bound) { return x < -bound ? -bound : x > bound ? bound : x; }

// gate_up: bf16 [rows, 2 * width], gates first; y: bf16 [rows, width]. Its beta is kSituBeta.
void Situ(int rows, int width, float linear_beta, const uint16_t* gate_up, uint16_t* y) {
  for (long r = 0; r < rows; ++r) {
    const uint16_t* in = gate_up + r * 2 * width;
    for (int i = 0; i < width; ++i) {
      float t = expf(Bounded(Widen(in[i]), 40) * (-2.0f / kSituBeta));
      float w = expf(Bounded(Widen(in[width + i]) * (2.0f / linear_beta), 20) * -1.0f);
      float top = kSituBeta * linear_beta * (1.0f - t) * (1.0f - w);
      y[r * width + i] = Round(top / ((1.0f + t) * (1.0f + t * t) * (1.0f + w)));
    }
  }
}

void SituBackward(int rows, int width, float linear_beta, const uint16_t* gate_up, const uint16_t* dy,
                  uint16_t* dgate_up) {
  for (long r = 0; r < rows; ++r) {
    const uint16_t* in = gate_up + r * 2 * width;
    uint16_t* out = dgate_up + r * 2 * width;
    for (int i = 0; i < width; ++i) {
      float d = Widen(dy[r * width + i]);
      float t = expf(Bounded(Widen(in[i]), 40) * (-2.0f / kSituBeta));
      float w = expf(Bounded(Widen(in[width + i]) * (2.0f / linear_beta), 20) * -1.0f);
      float p = 1.0f + t, q = 1.0f + t * t, z = 1.0f + w, inverse = 1.0f / (p * q * z);
      float tg = (1.0f - t) * inverse * q * z, s = inverse * p * z, tu = (1.0f - w) * inverse * p * q;
      out[i] = Round(d * s * ((1.0f - tg * tg) + kSituBeta * tg * (1.0f - s)) * linear_beta * tu);
      out[width + i] = Round(d * kSituBeta * tg * s * (1.0f - tu * tu));
    }
  }
}
