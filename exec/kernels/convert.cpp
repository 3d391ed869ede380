#include "exec/kernels/convert.hpp"

namespace orrery {
namespace {

template <class Stored, class T, class Convert>
void load_as(const void* data, std::uint64_t first, std::uint64_t count, T* out, Convert convert) {
  const Stored* in = static_cast<const Stored*>(data) + first;
  for (std::uint64_t i = 0; i < count; ++i) out[i] = static_cast<T>(convert(in[i]));
}

template <class Stored, class T, class Convert>
void store_as(void* data, std::uint64_t first, std::uint64_t count, const T* in, Convert convert) {
  Stored* out = static_cast<Stored*>(data) + first;
  for (std::uint64_t i = 0; i < count; ++i) out[i] = static_cast<Stored>(convert(in[i]));
}

constexpr auto same = [](auto x) { return x; };

}  // namespace

template <class T>
void load_elements(DType dtype, const void* data, std::uint64_t first, std::uint64_t count, T* out) {
  switch (dtype) {
    case DType::f64: return load_as<double>(data, first, count, out, same);
    case DType::f32: return load_as<float>(data, first, count, out, same);
    case DType::bf16: return load_as<std::uint16_t>(data, first, count, out, from_bf16);
    case DType::f16: return load_as<std::uint16_t>(data, first, count, out, from_f16);
    case DType::i32: return load_as<std::int32_t>(data, first, count, out, same);
    case DType::u8: return load_as<std::uint8_t>(data, first, count, out, same);
    case DType::f8: return load_as<std::uint8_t>(data, first, count, out, from_e4m3);
  }
}

template <class T>
void store_elements(DType dtype, void* data, std::uint64_t first, std::uint64_t count, const T* in) {
  constexpr auto bf16 = [](T x) { return bf16_of(static_cast<float>(x)); };
  constexpr auto f16 = [](T x) { return f16_of(static_cast<float>(x)); };
  constexpr auto e4m3 = [](T x) { return e4m3_of(static_cast<float>(x)); };
  switch (dtype) {
    case DType::f64: return store_as<double>(data, first, count, in, same);
    case DType::f32: return store_as<float>(data, first, count, in, same);
    case DType::bf16: return store_as<std::uint16_t>(data, first, count, in, bf16);
    case DType::f16: return store_as<std::uint16_t>(data, first, count, in, f16);
    case DType::i32: return store_as<std::int32_t>(data, first, count, in, same);
    case DType::u8: return store_as<std::uint8_t>(data, first, count, in, same);
    case DType::f8: return store_as<std::uint8_t>(data, first, count, in, e4m3);
  }
}

template void load_elements<float>(DType, const void*, std::uint64_t, std::uint64_t, float*);
template void load_elements<double>(DType, const void*, std::uint64_t, std::uint64_t, double*);
template void store_elements<float>(DType, void*, std::uint64_t, std::uint64_t, const float*);
template void store_elements<double>(DType, void*, std::uint64_t, std::uint64_t, const double*);

}  // namespace orrery
