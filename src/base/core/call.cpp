#include "src/base/core/call.hpp"

#include <array>
#include <bit>
#include <charconv>

namespace cxxrun::comm {
namespace {

constexpr std::array<std::string_view, 8> kKinds{"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                                 "all_to_all", "barrier",        "arena",      "split"};
constexpr std::array<std::string_view, 3> kWires{"same", "bf16", "f16"};
constexpr std::size_t kTypes = 7;
constexpr std::size_t kOps = 3;

template <class E>
bool within(E value, std::size_t count) {
  return static_cast<std::size_t>(value) < count;
}

template <class E, std::size_t N>
std::string name_in(std::array<std::string_view, N> const& names, E value) {
  auto const number = static_cast<std::size_t>(value);
  return number < N ? std::string(names[number]) : "number " + std::to_string(number);
}

bool has_elements(Kind kind) {
  return kind != Kind::barrier && kind != Kind::allocate && kind != Kind::split;
}
bool in_has_every_rank(Kind kind) {
  return kind == Kind::reduce_scatter || kind == Kind::all_to_all;
}
bool out_has_every_rank(Kind kind) {
  return kind == Kind::all_gather || kind == Kind::all_to_all;
}

std::size_t bytes_of(Call const& call, bool every_rank, int world) {
  return has_elements(call.kind) ? call.count * size_of(call.type) * (every_rank ? static_cast<std::size_t>(world) : 1)
                                 : 0;
}

/// The shortest text that reads back as the same float, so that two different scales never look alike.
std::string text_of(float value) {
  std::array<char, 32> buffer{};
  return {buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr};
}

/// The first thing that two calls differ in, or nothing.
std::string_view difference(Call const& a, Call const& b) {
  if (a.kind != b.kind) {
    return "the operation";
  }
  if (has_elements(a.kind) && a.type != b.type) {
    return "the type";
  }
  if (reduces(a.kind) && a.op != b.op) {
    return "how to reduce";
  }
  if (a.kind != Kind::barrier && a.count != b.count) {
    return a.kind == Kind::allocate ? "the size" : "the count";
  }
  if (a.kind == Kind::broadcast && a.root != b.root) {
    return "the root";
  }
  if (reduces(a.kind) && a.wire != b.wire) {
    return "the wire format";
  }
  bool const same_scale = std::bit_cast<std::uint32_t>(a.scale) == std::bit_cast<std::uint32_t>(b.scale);
  return reduces(a.kind) && !same_scale ? "the scale" : "";
}

/// The sentence for a value that no enumerator has: a caller may have cast a number.
std::optional<std::string> unknown_value(Call const& call) {
  if (!within(call.kind, kKinds.size())) {
    return "there is no operation number " + std::to_string(static_cast<int>(call.kind));
  }
  struct Value {
    bool known;
    int number;
    char const* what;
    char const* all;
  };
  for (auto const& [known, number, what, all] :
       {Value{within(call.type, kTypes), static_cast<int>(call.type), " of elements of type number ",
              ": the types are f32, f64, f16, bf16, i32, i64, u8"},
        Value{within(call.op, kOps), static_cast<int>(call.op), " with operation number ",
              ": the operations are sum, min, max"},
        Value{within(call.wire, kWires.size()), static_cast<int>(call.wire), " with wire format number ",
              ": the formats are same, bf16, f16"}}) {
    if (!known) {
      return name_in(kKinds, call.kind) + what + std::to_string(number) + all;
    }
  }
  return std::nullopt;
}

bool too_large(Call const& call, int world) {
  bool const every_rank = in_has_every_rank(call.kind) || out_has_every_rank(call.kind);
  std::size_t const unit =
      has_elements(call.kind) ? size_of(call.type) * (every_rank ? static_cast<std::size_t>(world) : 1) : 1;
  return call.count > static_cast<std::size_t>(PTRDIFF_MAX) / unit;
}

/// The sentence for buffers that are missing or overlap. A partial overlap would give a wrong result.
std::optional<std::string> bad_buffers(Call const& call, int rank, int world) {
  bool const only_out = call.kind == Kind::broadcast;
  if (!has_elements(call.kind) || call.count == 0) {
    return std::nullopt;
  }
  if (call.out == nullptr || (call.in == nullptr && !only_out)) {
    return describe(call) + ": a buffer is null";
  }
  auto const in = reinterpret_cast<std::uintptr_t>(call.in);
  auto const out = reinterpret_cast<std::uintptr_t>(call.out);
  bool const overlap = in < out + out_bytes(call, world) && out < in + in_bytes(call, world);
  if (call.kind == Kind::all_to_all && overlap) {
    return describe(call) + ": in and out overlap; it needs two buffers";
  }
  if (call.kind == Kind::all_reduce && overlap && in != out) {
    return describe(call) + ": in and out overlap; pass one buffer as both, or two that do not overlap";
  }
  std::size_t const mine = static_cast<std::size_t>(rank) * call.count * size_of(call.type);
  if (call.kind == Kind::all_gather && overlap && in != out && in != out + mine) {
    return describe(call) + ": in and out overlap; in may be out, or this rank's part of it, or lie elsewhere";
  }
  if (call.kind == Kind::reduce_scatter && overlap && in != out && out != in + mine) {
    return describe(call) + ": in and out overlap; out may be in, or this rank's part of it, or lie elsewhere";
  }
  return std::nullopt;
}

}  // namespace

std::string name_of(Wire wire) {
  return name_in(kWires, wire);
}

CallFields fields_of(Call const& call) {
  return {call.count, call.scale, call.root, call.kind, call.type, call.op, call.wire, 0};
}

Call call_of(CallFields const& fields) {
  return {.kind = fields.kind,
          .type = fields.type,
          .op = fields.op,
          .wire = fields.wire,
          .root = fields.root,
          .count = fields.count,
          .scale = fields.scale};
}

std::size_t in_bytes(Call const& call, int world) {
  return bytes_of(call, in_has_every_rank(call.kind), world);
}

std::size_t out_bytes(Call const& call, int world) {
  return bytes_of(call, out_has_every_rank(call.kind), world);
}

std::string describe(Call const& call) {
  std::string text = name_in(kKinds, call.kind);
  if (call.kind == Kind::barrier || call.kind == Kind::split) {
    return text;
  }
  text += " of " + std::to_string(call.count) + " ";
  if (call.kind == Kind::allocate) {
    return text + "bytes";
  }
  text += name_of(call.type);
  if (call.kind == Kind::broadcast) {
    text += " from rank " + std::to_string(call.root);
  }
  if (reduces(call.kind)) {
    text += ", " + std::string(name_of(call.op));
    text += call.wire == Wire::same ? "" : ", wire " + name_of(call.wire);
    text += call.scale == 1.0F ? "" : ", scale " + text_of(call.scale);
  }
  return text;
}

std::optional<std::string> disagreement(int rank_a, Call const& a, int rank_b, Call const& b) {
  if (rank_b < rank_a) {
    return disagreement(rank_b, b, rank_a, a);
  }
  auto const what = difference(a, b);
  if (what.empty()) {
    return std::nullopt;
  }
  return "ranks disagree about " + std::string(what) + ": rank " + std::to_string(rank_a) + " called " + describe(a) +
         "; rank " + std::to_string(rank_b) + " called " + describe(b);
}

std::optional<std::string> refusal(Call const& call, int rank, int world) {
  if (auto unknown = unknown_value(call)) {
    return unknown;
  }
  if (too_large(call, world)) {
    return describe(call) + " over " + std::to_string(world) + " ranks is more than memory can be addressed";
  }
  if (call.kind == Kind::broadcast && (call.root < 0 || call.root >= world)) {
    return describe(call) + ": the ranks are 0 to " + std::to_string(world - 1);
  }
  if (reduces(call.kind) && !is_floating(call.type) && call.scale != 1.0F) {
    return describe(call) + ": only floating point types can be scaled; divide the result instead";
  }
  return bad_buffers(call, rank, world);
}

}  // namespace cxxrun::comm
