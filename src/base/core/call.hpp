// Call: one collective as one rank requests it, from the public API to a backend. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "cxxrun/communicator.hpp"

namespace cxxrun::comm {

/// The numbers travel between processes: append only.
enum class Kind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  all_to_all,
  barrier,
  allocate,
  split
};

/// `count` is the elements of the smaller buffer. all_reduce and broadcast: either buffer; reduce_scatter: out;
/// all_gather: in; all_to_all: one rank's part; barrier and split: 0; allocate: bytes.
struct Call {
  Kind kind = Kind::barrier;
  DType type = DType::u8;
  ReduceOp op = ReduceOp::sum;
  Wire wire = Wire::same;
  int root = 0;
  std::size_t count = 0;
  float scale = 1.0F;
  void const* in = nullptr;  ///< `in` and `out` are each rank's own and are never compared
  void* out = nullptr;
  Stream stream{};  ///< for device memory: the call begins after the work queued here; each rank's own, too
};

/// The part of a call that ranks compare. Sent between processes as it is, over connections and in shared memory.
struct CallFields {
  std::uint64_t count = 0;
  float scale = 1.0F;
  std::int32_t root = 0;
  Kind kind = Kind::barrier;
  DType type = DType::u8;
  ReduceOp op = ReduceOp::sum;
  Wire wire = Wire::same;
  std::uint32_t unused = 0;
};
static_assert(sizeof(CallFields) == 24);

[[nodiscard]] CallFields fields_of(Call const& call);
/// Without buffers and stream.
[[nodiscard]] Call call_of(CallFields const& fields);

/// Whether the kind has an op, a wire format and a scale: all_reduce and reduce_scatter.
[[nodiscard]] constexpr bool reduces(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce_scatter;
}
[[nodiscard]] constexpr bool is_floating(DType type) {
  return type == DType::f32 || type == DType::f64 || type == DType::f16 || type == DType::bf16;
}
[[nodiscard]] std::string name_of(Wire wire);

/// Bytes of the in and out buffers of a call in a world of `world` ranks.
[[nodiscard]] std::size_t in_bytes(Call const& call, int world);
[[nodiscard]] std::size_t out_bytes(Call const& call, int world);

/// "all_reduce of 25 f32, sum": for messages.
[[nodiscard]] std::string describe(Call const& call);

/// The sentence for the Failure if the calls of two ranks cannot be one collective; else nothing. It names the lower
/// rank's call first, so that both ranks report the same.
[[nodiscard]] std::optional<std::string> disagreement(int rank_a, Call const& a, int rank_b, Call const& b);

/// The sentence that refuses a call of `rank`, or nothing. Refused are: a scale on integers, a root outside the world,
/// sizes that overflow, numbers that are no type or operation, buffers that are null or overlap in part.
[[nodiscard]] std::optional<std::string> refusal(Call const& call, int rank, int world);

}  // namespace cxxrun::comm
