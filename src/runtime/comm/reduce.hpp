// Reductions over buffers, and the wire formats of f32. Pure: memory in, memory out, no allocation.
#pragma once

#include <cstddef>
#include <span>

#include "cxxrun/communicator.hpp"

namespace cxxrun::comm {

/// outputs[k][i] = scale * op over j of inputs[j][i], for every k and i < count; in the order of `inputs`, in one pass.
/// Buffers are equal or disjoint: an output may be one of the inputs. f16 and bf16 are calculated in f32 and rounded
/// once; integers wrap. `scale` only for floating point types, otherwise 1.
void reduce(DType type, ReduceOp op, std::span<void const* const> inputs, std::span<void* const> outputs,
            std::size_t count, float scale = 1.0F);

/// Whether partial sums of `type` have to be f32, because 16 bits would round, or overflow, once per node.
[[nodiscard]] constexpr bool sums_in_f32(DType type, ReduceOp op) {
  return op == ReduceOp::sum && (type == DType::f16 || type == DType::bf16);
}
/// The two halves of such a sum, in the order of `inputs`. sum_to_f32: from elements of `type`, without rounding.
/// sum_from_f32: from these partial sums to elements of `type`: scale * sum, rounded once. Buffers are disjoint.
void sum_to_f32(DType type, std::span<void const* const> inputs, float* to, std::size_t count);
void sum_from_f32(DType type, std::span<void const* const> inputs, std::byte* to, std::size_t count, float scale);

/// Bytes per f32 element on the wire.
[[nodiscard]] constexpr std::size_t wire_size(Wire wire) {
  return wire == Wire::same ? sizeof(float) : sizeof(std::uint16_t);
}
/// f32 → wire format, wire format → f32, and to[i] += the f32 of from[i].
void encode(Wire wire, float const* from, std::byte* to, std::size_t count);
void decode(Wire wire, std::byte const* from, float* to, std::size_t count);
void accumulate_encoded(Wire wire, float* to, std::byte const* from, std::size_t count);

}  // namespace cxxrun::comm
