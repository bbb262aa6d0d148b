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

// One position: decays S, corrects it by the delta rule, keeps the written value in d.
static inline void Advance(float* S, const float* q, const float* k, const float* v, const float* a, float beta,
                           float* d, float* o) {
  float u[kDim] = {0};
  for (int i = 0; i < kDim; ++i) {
    for (int j = 0; j < kDim; ++j) {
      S[i * kDim + j] *= a[i];
      u[j] += k[i] * S[i * kDim + j];
    }
  }
  float out[kDim] = {0};
  for (int j = 0; j < kDim; ++j) d[j] = beta * (v[j] - u[j]);
  for (int i = 0; i < kDim; ++i) {
    for (int j = 0; j < kDim; ++j) {
      S[i * kDim + j] += k[i] * d[j];
      out[j] += q[i] * S[i * kDim + j];
    }
  }
  if (o) memcpy(o, out, sizeof(out));
}

// q, k, v, a, o: [batch, length, heads, kDim]; beta: [batch, length, heads].
// checkpoints: [batch, heads, ceil(length / kSpan), kDim, kDim], the state before each span.
void Delta(int batch, int length, int heads, const float* q, const float* k, const float* v, const float* a,
           const float* beta, float* o, float* checkpoints) {
  int spans = (length + kSpan - 1) / kSpan;
  for (int b = 0; b < batch; ++b) {
    for (int h = 0; h < heads; ++h) {
      float S[kDim * kDim] = {0}, d[kDim];
      for (int t = 0; t < length; ++t) {
        long row = ((long)b * length + t) * heads + h, at = row * kDim;
        if (t % kSpan == 0) {
          memcpy(checkpoints + (((long)b * heads + h) * spans + t / kSpan) * kDim * kDim, S, sizeof(S));
        }
        Advance(S, q + at, k + at, v + at, a + at, beta[row], d, o + at);
      }
    }
  }
}

// The gradient of one position. On entry dS is the gradient of the state after it, on return of the
// state before it. before and after are those states, d the written value.
static inline void Retreat(float* dS, const float* before, const float* after, const float* q, const float* k,
                           const float* v, const float* a, float beta, const float* d, const float* dout, float* dq,
                           float* dk, float* dv, float* da, float* dbeta) {
  float dd[kDim] = {0}, du[kDim], u[kDim] = {0};
  for (int i = 0; i < kDim; ++i) {
    float sum_q = 0, sum_k = 0;
    for (int j = 0; j < kDim; ++j) {
      dS[i * kDim + j] += q[i] * dout[j];
      sum_q += after[i * kDim + j] * dout[j];
      sum_k += dS[i * kDim + j] * d[j];
      dd[j] += k[i] * dS[i * kDim + j];
      u[j] += k[i] * a[i] * before[i * kDim + j];
    }
    dq[i] = sum_q;
    dk[i] = sum_k;
  }
  float sum_beta = 0;
  for (int j = 0; j < kDim; ++j) {
    sum_beta += dd[j] * (v[j] - u[j]);
    dv[j] = beta * dd[j];
    du[j] = -dv[j];
  }
  *dbeta = sum_beta;
  for (int i = 0; i < kDim; ++i) {
    float sum_k = 0, sum_a = 0;
    for (int j = 0; j < kDim; ++j) {
      float s = before[i * kDim + j];
      sum_k += s * du[j];
      float grad = dS[i * kDim + j] + k[i] * du[j];
      sum_a += grad * s;
      dS[i * kDim + j] = grad * a[i];
    }
    dk[i] += a[i] * sum_k;
    da[i] = sum_a;
  }
}

void DeltaBackward(int batch, int length, int heads, const float* q, const float* k, const float* v, const float* a,
                   const float* beta, const float* checkpoints, const float* dout, float* dq, float* dk, float* dv,
                   float* da, float* dbeta) {
  int spans = (length + kSpan - 1) / kSpan;
  static _Thread_local float states[kSpan + 1][kDim * kDim];
  float d[kSpan][kDim];
  for (int b = 0; b < batch; ++b) {
    for (int h = 0; h < heads; ++h) {
      float dS[kDim * kDim] = {0};
      for (int span = spans - 1; span >= 0; --span) {
        int begin = span * kSpan, count = length - begin < kSpan ? length - begin : kSpan;
        memcpy(states[0], checkpoints + (((long)b * heads + h) * spans + span) * kDim * kDim, sizeof(states[0]));
        for (int t = 0; t < count; ++t) {
          long row = ((long)b * length + begin + t) * heads + h, at = row * kDim;
          memcpy(states[t + 1], states[t], sizeof(states[0]));
          Advance(states[t + 1], q + at, k + at, v + at, a + at, beta[row], d[t], 0);
        }
        for (int t = count - 1; t >= 0; --t) {
          long row = ((long)b * length + begin + t) * heads + h, at = row * kDim;
          Retreat(dS, states[t], states[t + 1], q + at, k + at, v + at, a + at, beta[row], d[t], dout + at, dq + at,
                  dk + at, dv + at, da + at, dbeta + row);
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

static inline float Sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

static inline float Tanh(float x) { return 2.0f * Sigmoid(2.0f * x) - 1.0f; }

// gate_up: bf16 [rows, 2 * width], gates first; y: bf16 [rows, width].
void Situ(int rows, int width, float beta, float linear_beta, const uint16_t* gate_up, uint16_t* y) {
  for (long r = 0; r < rows; ++r) {
    const uint16_t* in = gate_up + r * 2 * width;
    for (int i = 0; i < width; ++i) {
      float g = Widen(in[i]), u = Widen(in[width + i]);
      y[r * width + i] = Round(beta * Tanh(g / beta) * Sigmoid(g) * linear_beta * Tanh(u / linear_beta));
    }
  }
}

void SituBackward(int rows, int width, float beta, float linear_beta, const uint16_t* gate_up, const uint16_t* dy,
                  uint16_t* dgate_up) {
  for (long r = 0; r < rows; ++r) {
    const uint16_t* in = gate_up + r * 2 * width;
    uint16_t* out = dgate_up + r * 2 * width;
    for (int i = 0; i < width; ++i) {
      float g = Widen(in[i]), u = Widen(in[width + i]), d = Widen(dy[r * width + i]);
      float tg = Tanh(g / beta), tu = Tanh(u / linear_beta), s = Sigmoid(g);
      float dgate = (1.0f - tg * tg) * s + beta * tg * s * (1.0f - s);
      out[i] = Round(d * dgate * linear_beta * tu);
      out[width + i] = Round(d * beta * tg * s * (1.0f - tu * tu));
    }
  }
}
