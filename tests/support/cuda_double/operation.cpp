// What collectives do to the data: in pieces through the slots, summed in the order of ranks.
#include <algorithm>
#include <cstring>

#include "src/runtime/comm/element_formats.hpp"
#include "tests/support/cuda_double/world.hpp"

namespace cxxrun::cuda_double {
namespace {

using Kind = Operation::Kind;

/// An element as it is stored, and what it is calculated in.
template <class T>
struct Plain {
  using Stored = T;
  using Value = T;
  static T value_of(T stored) { return stored; }
  static T stored_of(T value) { return value; }
};

template <class Format, class Fold>
void reduce(World const& world, std::size_t offset, std::byte* out, std::size_t count, Fold fold) {
  using Stored = typename Format::Stored;
  for (std::size_t i = 0; i < count; ++i) {
    typename Format::Value total{};
    for (int rank = 0; rank < world.size(); ++rank) {
      Stored stored;
      std::memcpy(&stored, world.data(rank) + offset + i * sizeof(Stored), sizeof(Stored));
      auto const value = Format::value_of(stored);
      total = rank == 0 ? value : Format::value_of(Format::stored_of(fold(total, value)));  // as NCCL's rings round
    }
    Stored const result = Format::stored_of(total);
    std::memcpy(out + i * sizeof(Stored), &result, sizeof(Stored));
  }
}

template <class Format>
void reduce(World const& world, ncclRedOp_t op, std::size_t offset, std::byte* out, std::size_t count) {
  using Value = typename Format::Value;
  switch (op) {
    case ncclMin: return reduce<Format>(world, offset, out, count, [](Value a, Value b) { return std::min(a, b); });
    case ncclMax: return reduce<Format>(world, offset, out, count, [](Value a, Value b) { return std::max(a, b); });
    default:
      return reduce<Format>(world, offset, out, count, [](Value a, Value b) { return static_cast<Value>(a + b); });
  }
}

void reduce(World const& world, Operation const& operation, std::size_t offset, std::byte* out, std::size_t count) {
  bool const sum = operation.op == ncclSum;  // signed numbers are added as unsigned ones, which wrap around
  switch (operation.type) {
    case ncclFloat32: return reduce<comm::F32>(world, operation.op, offset, out, count);
    case ncclFloat64: return reduce<comm::F64>(world, operation.op, offset, out, count);
    case ncclFloat16: return reduce<comm::F16>(world, operation.op, offset, out, count);
    case ncclBfloat16: return reduce<comm::BF16>(world, operation.op, offset, out, count);
    case ncclInt32:
      return sum ? reduce<Plain<std::uint32_t>>(world, operation.op, offset, out, count)
                 : reduce<Plain<std::int32_t>>(world, operation.op, offset, out, count);
    case ncclInt64:
      return sum ? reduce<Plain<std::uint64_t>>(world, operation.op, offset, out, count)
                 : reduce<Plain<std::int64_t>>(world, operation.op, offset, out, count);
    default: return reduce<Plain<std::uint8_t>>(world, operation.op, offset, out, count);
  }
}

std::size_t parts(World const& world) {
  return static_cast<std::size_t>(world.size());
}

/// Elements that go through a slot at once.
std::size_t piece(World const& world, Operation const& operation) {
  bool const every_rank = operation.kind == Kind::reduce_scatter;
  return kSlotBytes / size_of(operation.type) / (every_rank ? parts(world) : 1);
}

/// What this rank puts into its slot: elements [first, first + count) of each part.
void put(World const& world, Operation const& operation, std::size_t first, std::size_t count) {
  auto const width = size_of(operation.type);
  auto const* const in = static_cast<std::byte const*>(operation.in);
  auto* const slot = world.data(world.rank());
  if (operation.kind == Kind::broadcast && world.rank() != operation.root) {
    return;
  }
  std::size_t const copies = operation.kind == Kind::reduce_scatter ? parts(world) : 1;
  for (std::size_t part = 0; part < copies; ++part) {
    std::memcpy(slot + part * count * width, in + (part * operation.count + first) * width, count * width);
  }
}

/// What it takes from all slots.
void take(World const& world, Operation const& operation, std::size_t first, std::size_t count) {
  auto const width = size_of(operation.type);
  auto* const out = static_cast<std::byte*>(operation.out);
  auto const mine = static_cast<std::size_t>(world.rank());
  switch (operation.kind) {
    case Kind::all_reduce: return reduce(world, operation, 0, out + first * width, count);
    case Kind::reduce_scatter: return reduce(world, operation, mine * count * width, out + first * width, count);
    case Kind::broadcast: std::memcpy(out + first * width, world.data(operation.root), count * width); return;
    default:
      for (std::size_t rank = 0; rank < parts(world); ++rank) {
        std::memcpy(out + (rank * operation.count + first) * width, world.data(static_cast<int>(rank)), count * width);
      }
  }
}

std::size_t largest(Operation const& operation) {
  std::size_t bytes = 0;
  for (auto const* const list : {&operation.sends, &operation.receives}) {
    for (auto const& part : *list) {
      bytes = std::max(bytes, part.bytes);
    }
  }
  return bytes;
}

Outcome exchange(World& world, Operation const& operation, std::size_t most, std::atomic<bool> const& stop,
                 bool deaths_seen) {
  std::size_t const room = kSlotBytes / parts(world);
  for (std::size_t first = 0; first < most; first += room) {
    auto const length = [&](Operation::Part const& part) {
      return part.bytes > first ? std::min(part.bytes - first, room) : 0;
    };
    for (auto const& part : operation.sends) {
      std::memcpy(world.data(world.rank()) + static_cast<std::size_t>(part.peer) * room, part.from + first,
                  length(part));
    }
    if (auto const met = world.meet(stop, deaths_seen); met != ncclSuccess) {
      return met;
    }
    for (auto const& part : operation.receives) {
      std::memcpy(part.to + first, world.data(part.peer) + static_cast<std::size_t>(world.rank()) * room, length(part));
    }
    if (auto const met = world.meet(stop, deaths_seen); met != ncclSuccess) {
      return met;
    }
  }
  return ncclSuccess;
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  return (hash ^ value) * 0x100000001b3U;
}

}  // namespace

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
    case ncclInt64:
    case ncclUint64: return 8;
    case ncclFloat32:
    case ncclInt32:
    case ncclUint32: return 4;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    default: return 1;
  }
}

Outcome carry_out(World& world, Operation const& operation, std::uint64_t& history, std::atomic<bool> const& stop,
                  bool deaths_seen) {
  history = mixed(history, static_cast<std::uint64_t>(operation.kind) + 1);
  if (operation.kind != Kind::exchange) {
    for (auto const value : {static_cast<std::uint64_t>(operation.count), static_cast<std::uint64_t>(operation.type),
                             static_cast<std::uint64_t>(operation.op), static_cast<std::uint64_t>(operation.root)}) {
      history = mixed(history, value);
    }
  }
  world.word(world.rank(), 0) = history;
  world.word(world.rank(), 1) = largest(operation);
  if (auto const met = world.meet(stop, deaths_seen); met != ncclSuccess) {
    return met;
  }
  bool same = true;
  std::size_t most = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    same = same && world.word(rank, 0) == history;
    most = std::max<std::size_t>(most, world.word(rank, 1));
  }
  if (auto const met = world.meet(stop, deaths_seen); met != ncclSuccess || !same) {
    return met != ncclSuccess ? met : ncclInvalidUsage;
  }
  if (operation.kind == Kind::exchange) {
    return exchange(world, operation, most, stop, deaths_seen);
  }
  std::size_t const step = piece(world, operation);
  for (std::size_t first = 0; first < operation.count; first += step) {
    std::size_t const count = std::min(step, operation.count - first);
    put(world, operation, first, count);
    if (auto const met = world.meet(stop, deaths_seen); met != ncclSuccess) {
      return met;
    }
    take(world, operation, first, count);
    if (auto const met = world.meet(stop, deaths_seen); met != ncclSuccess) {
      return met;
    }
  }
  return ncclSuccess;
}

}  // namespace cxxrun::cuda_double
