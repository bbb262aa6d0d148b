// Decoding rows of bf16 weights whose exponents are coded (base/coded_bf16.h).
#if defined(KIMI_K3_KERNELS_CODED_BF16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIMI_K3_KERNELS_CODED_BF16_INL_H_
#undef KIMI_K3_KERNELS_CODED_BF16_INL_H_
#else
#define KIMI_K3_KERNELS_CODED_BF16_INL_H_
#endif

#include <bit>
#include <cstring>

#include "base/aligned_buffer.h"
#include "base/coded_bf16.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kimi_k3::kernels::HWY_NAMESPACE {

// Columns that are decoded in one step: a word of each plane. A decoder writes whole steps.
inline constexpr size_t kCodedStepColumns = 64;

class CodedRowDecoder {
 public:
  // Any bytes may come: nothing is read outside row.bytes() of `data`, nothing written beyond the
  // room. Where there are more escapes than room for them, those of that step and all
  // that follow are taken for 0.
  HWY_INLINE CodedRowDecoder(const CodedBf16Row& row, const std::byte* data)
      : planes_(reinterpret_cast<const uint8_t*>(data)),
        mantissas_(planes_ + row.mantissas_at()),
        escape_(planes_ + row.escapes_at()),
        plane_bytes_(row.plane_bytes()),
        columns_(row.columns),
        row_bytes_(row.bytes()),
        escapes_left_(row.escapes) {
    alignas(16) uint16_t shifted[8];
    const uint8_t* const table = planes_ + row.table_at();
    for (size_t code = 0; code < CodedBf16Row::kEscape; ++code) {
      shifted[code] = static_cast<uint16_t>(table[code] << 7);
    }
    shifted[CodedBf16Row::kEscape] = 0;  // the escape itself is put in afterwards
    exponents_ = hn::BitCast(D8(), hn::LoadDup128(D16(), shifted));
  }

  // out: bf16, room for the columns in whole steps and one more; behind the last column comes
  // anything.
  HWY_INLINE void Decode(uint16_t* out) {
    const size_t whole = columns_ / kCodedStepColumns * kCodedStepColumns;
    for (size_t c = 0; c < whole; c += kCodedStepColumns) {
      const uint8_t* const bits = planes_ + c / 8;
      // A row is stored in several stretches, which the processor does not foresee.
      const uint8_t* const next =
          planes_ + row_bytes_ + c / kCodedStepColumns * 2 * kCacheLineBytes;
      __builtin_prefetch(next, 0, 2);
      __builtin_prefetch(next + kCacheLineBytes, 0, 2);
      DecodeStep(bits, plane_bytes_, mantissas_ + c, out + c);
      PutEscapes(Word(bits) & Word(bits + plane_bytes_) & Word(bits + 2 * plane_bytes_), out + c);
    }
    if (whole < columns_) DecodeTail(whole, out + whole);
  }

 private:
  using D16 = hn::CappedTag<uint16_t, 2 * kLanes>;
  using D8 = hn::Repartition<uint8_t, D16>;
  static constexpr size_t kUnaskedEscapes = 3;
  static_assert(kUnaskedEscapes <= CodedBf16Row::kTableBytes);

  HWY_INLINE static uint64_t Word(const uint8_t* p) {
    uint64_t word;
    std::memcpy(&word, p, sizeof word);
    return word;
  }

  // A code selects two bytes of the table: 2 * code for the lower and one more for the upper half.
  HWY_INLINE void DecodeStep(const uint8_t* bits, size_t plane_bytes, const uint8_t* mantissas,
                             uint16_t* out) const {
    constexpr D16 d16;
    constexpr size_t kN = hn::MaxLanes(d16);
    const hn::Rebind<uint8_t, D16> d_half;
    KIMI_K3_UNROLL
    for (size_t i = 0; i < kCodedStepColumns; i += kN) {
      const uint8_t* const p = bits + i / 8;
      const auto bit0 = hn::LoadMaskBits(d16, p);
      const auto bit1 = hn::LoadMaskBits(d16, p + plane_bytes);
      const auto bit2 = hn::LoadMaskBits(d16, p + 2 * plane_bytes);
      const auto low = hn::Or(hn::IfThenElseZero(bit0, hn::Set(d16, 0x0202)), hn::Set(d16, 0x0100));
      const auto high = hn::Or(hn::IfThenElseZero(bit1, hn::Set(d16, 0x0404)),
                               hn::IfThenElseZero(bit2, hn::Set(d16, 0x0808)));
      const auto index = hn::BitCast(D8(), hn::Or(low, high));
      const auto exponents = hn::BitCast(d16, hn::TableLookupBytes(exponents_, index));
      const auto wide = hn::PromoteTo(d16, hn::LoadU(d_half, mantissas + i));
      const auto rest = hn::And(hn::Or(hn::ShiftLeft<8>(wide), wide), hn::Set(d16, 0x807f));
      hn::StoreU(hn::Or(rest, exponents), d16, out + i);
    }
  }

  // where: columns of the step that have an escape. A few are put in without asking whether they
  // are there, which the processor could not foresee: one that is not goes behind the step, where
  // the next is decoded later, and takes its byte from the table at the latest.
  HWY_INLINE void PutEscapes(uint64_t where, uint16_t* out) {
    const auto count = static_cast<size_t>(std::popcount(where));
    if (count > escapes_left_) {
      escapes_left_ = 0;
      return;
    }
    escapes_left_ -= count;
    const uint8_t* escape = escape_;
    escape_ += count;
    KIMI_K3_UNROLL
    for (size_t i = 0; i < kUnaskedEscapes; ++i) PutFirst(where, *escape++, out);
    while (where != 0) PutFirst(where, *escape++, out);
  }

  HWY_INLINE static void PutFirst(uint64_t& where, uint8_t exponent, uint16_t* out) {
    const auto column = static_cast<size_t>(std::countr_zero(where));
    out[column] = static_cast<uint16_t>(out[column] | (exponent << 7));
    where &= where - 1;
  }

  HWY_NOINLINE void DecodeTail(size_t first, uint16_t* out) {
    const size_t rest = columns_ - first;
    uint8_t bits[4 * 8] = {};
    uint8_t mantissas[kCodedStepColumns] = {};
    for (size_t plane = 0; plane < 3; ++plane) {
      std::memcpy(bits + plane * 8, planes_ + plane * plane_bytes_ + first / 8, (rest + 7) / 8);
    }
    std::memcpy(mantissas, mantissas_ + first, rest);
    DecodeStep(bits, 8, mantissas, out);
    const uint64_t mask = (uint64_t{1} << rest) - 1;
    PutEscapes(Word(bits) & Word(bits + 8) & Word(bits + 16) & mask, out);
  }

  const uint8_t* planes_;
  const uint8_t* mantissas_;
  const uint8_t* escape_;
  size_t plane_bytes_;
  size_t columns_;
  size_t row_bytes_;
  size_t escapes_left_;
  hn::Vec<D8> exponents_;
};

}  // namespace kimi_k3::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, once per instruction set
