#include "tests/support/closed_form.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace cxxrun::test {
namespace {

using comm::Call;
using comm::Kind;

constexpr std::size_t kPeriod = 13;
constexpr std::size_t kRepeats = 64;

template <class T>
void append(std::vector<std::byte>& to, double value) {
  T const element = T(static_cast<float>(value));
  auto const* const bytes = reinterpret_cast<std::byte const*>(&element);
  to.insert(to.end(), bytes, bytes + sizeof(T));
}
void append(DType type, std::vector<std::byte>& to, double value) {
  switch (type) {
    case DType::f32: return append<float>(to, value);
    case DType::f64: return append<double>(to, value);
    case DType::f16: return append<float16>(to, value);
    case DType::bf16: return append<bfloat16>(to, value);
    case DType::i32: return append<std::int32_t>(to, value);
    case DType::i64: return append<std::int64_t>(to, value);
    case DType::u8: return append<std::uint8_t>(to, value);
  }
}

/// Elements `factor * (i % 13) + summand` from i = `first` on.
struct Sequence {
  double factor = 1;
  double summand = 0;
  std::size_t first = 0;
};

std::vector<std::byte> block_of(DType type, Sequence const& sequence) {
  std::vector<std::byte> block;
  for (std::size_t i = 0; i < kPeriod * kRepeats; ++i) {
    auto const phase = static_cast<double>((sequence.first + i) % kPeriod);
    append(type, block, sequence.factor * phase + sequence.summand);
  }
  return block;
}

void fill(DType type, Sequence const& sequence, std::byte* to, std::size_t bytes) {
  auto const block = block_of(type, sequence);
  for (std::size_t at = 0; at < bytes; at += block.size()) {
    std::memcpy(to + at, block.data(), std::min(block.size(), bytes - at));
  }
}

/// The first byte that differs, or `bytes`.
std::size_t mismatch(DType type, Sequence const& sequence, std::byte const* from, std::size_t bytes) {
  auto const block = block_of(type, sequence);
  for (std::size_t at = 0; at < bytes; at += block.size()) {
    std::size_t const length = std::min(block.size(), bytes - at);
    if (std::memcmp(from + at, block.data(), length) != 0) {
      return at +
             static_cast<std::size_t>(std::mismatch(from + at, from + at + length, block.data()).first - (from + at));
    }
  }
  return bytes;
}

Sequence reduced(Call const& call, int world, std::size_t first) {
  double const all = world;
  switch (call.op) {
    case ReduceOp::sum: return {all * call.scale, all * (all - 1) / 2 * call.scale, first};
    case ReduceOp::min: return {1, 0, first};
    case ReduceOp::max: return {1, all - 1, first};
  }
  return {};
}

/// What part `j` of `rank`'s out must be.
Sequence expected(Call const& call, int rank, int world, int j) {
  std::size_t const mine = static_cast<std::size_t>(rank) * call.count;
  switch (call.kind) {
    case Kind::all_reduce: return reduced(call, world, 0);
    case Kind::reduce_scatter: return reduced(call, world, mine);
    case Kind::all_gather: return {1, static_cast<double>(j), 0};
    case Kind::broadcast: return {1, static_cast<double>(call.root), 0};
    case Kind::all_to_all: return {1, static_cast<double>(j), mine};
    case Kind::barrier:
    case Kind::allocate:
    case Kind::split: return {};
  }
  return {};
}

}  // namespace

std::string attempt(host::Backend& backend, Call call, int rank, int world, std::byte* in, std::byte* out) {
  std::size_t const part = call.count * size_of(call.type);
  fill(call.type, {1, static_cast<double>(rank), 0}, in, comm::in_bytes(call, world));
  if (in != out) {
    std::memset(out, 0xA5, comm::out_bytes(call, world));  // what an earlier call has left is right as well
  }
  call.in = in;
  call.out = out;
  backend.run(call);
  for (std::size_t at = 0, j = 0; at < comm::out_bytes(call, world); at += part, ++j) {
    std::size_t const wrong = mismatch(call.type, expected(call, rank, world, static_cast<int>(j)), out + at, part);
    if (wrong != part) {
      return "rank " + std::to_string(rank) + " of " + std::to_string(world) + ", " + comm::describe(call) +
             ": element " + std::to_string((at + wrong) / size_of(call.type)) + " is wrong";
    }
  }
  std::size_t const given = in != out ? comm::in_bytes(call, world) : 0;
  if (std::size_t const wrong = mismatch(call.type, {1, static_cast<double>(rank), 0}, in, given); wrong != given) {
    return "rank " + std::to_string(rank) + " of " + std::to_string(world) + ", " + comm::describe(call) +
           ": element " + std::to_string(wrong / size_of(call.type)) + " of in was written to";
  }
  return "";
}

}  // namespace cxxrun::test
