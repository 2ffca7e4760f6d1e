// Reductions over buffers, and the formats f32 takes on the wire. Pure: memory in, memory out; no allocation.
#pragma once

#include <cstddef>
#include <span>

#include "cxxrun/communicator.hpp"

namespace cxxrun::comm {

/// outputs[k][i] = scale * op over j of inputs[j][i], for every k, i < count; in the order of `inputs`, one pass.
/// Buffers are equal or disjoint: an output may be one of the inputs. f16 and bf16 are calculated in f32 and rounded
/// once, integers wrap. scale is for floating point only (1 for others).
void reduce(DType type, ReduceOp op, std::span<void const* const> inputs, std::span<void* const> outputs,
            std::size_t count, float scale = 1.0F);

/// Bytes per f32 element on the wire.
[[nodiscard]] constexpr std::size_t wire_size(Wire wire) {
  return wire == Wire::same ? sizeof(float) : sizeof(std::uint16_t);
}
/// f32 → wire format, wire format → f32, and to[i] += the f32 of from[i].
void encode(Wire wire, float const* from, std::byte* to, std::size_t count);
void decode(Wire wire, std::byte const* from, float* to, std::size_t count);
void accumulate_encoded(Wire wire, float* to, std::byte const* from, std::size_t count);

}  // namespace cxxrun::comm
