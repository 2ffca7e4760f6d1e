#include "cxxrun/dtype.hpp"

#include <array>

#include "src/runtime/comm/half.hpp"

namespace cxxrun {
namespace {

struct Described {
  std::string_view name;
  std::size_t size;
};
constexpr std::array<Described, 7> kTypes{
    {{"f32", 4}, {"f64", 8}, {"f16", 2}, {"bf16", 2}, {"i32", 4}, {"i64", 8}, {"u8", 1}}};
constexpr std::array<std::string_view, 3> kOps{"sum", "min", "max"};

// An unknown number comes from a cast or from another version; comm::refusal() reports it.
constexpr Described kUnknown{"unknown", 1};

Described const& described(DType type) {
  auto const number = static_cast<std::size_t>(type);
  return number < kTypes.size() ? kTypes[number] : kUnknown;
}

}  // namespace

std::size_t size_of(DType type) {
  return described(type).size;
}

std::string_view name_of(DType type) {
  return described(type).name;
}

std::string_view name_of(ReduceOp op) {
  auto const number = static_cast<std::size_t>(op);
  return number < kOps.size() ? kOps[number] : kUnknown.name;
}

float16::float16(float value) : bits(comm::f16_of_float<comm::Lanes<1>>(value)) {}

float16::operator float() const {
  return comm::float_of_f16<comm::Lanes<1>>(bits);
}

bfloat16::bfloat16(float value) : bits(comm::bf16_of_float<comm::Lanes<1>>(value)) {}

bfloat16::operator float() const {
  return comm::float_of_bf16<comm::Lanes<1>>(bits);
}

}  // namespace cxxrun
