// NodeExchange: every rank of a node shows some of its memory, and every rank takes what it needs from it. Shell.
//
// Memory in an arena is read in place, in one go. If any rank's memory is elsewhere, all ranks proceed in windows that
// fit into a piece of staging memory: copy the next window in, meet, take. A piece is reused three windows later, when
// all ranks have met twice since it was read. For that reason pieces are numbered through from call to call.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "src/runtime/comm/reduce.hpp"
#include "src/runtime/cpu/common/fault_points.hpp"
#include "src/runtime/cpu/node/node_group.hpp"
#include "src/runtime/cpu/node/node_layout.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace cxxrun::host {

// ---- bytes of the buffers of calls: location, overlap, copies

[[nodiscard]] inline std::byte const* in_of(comm::Call const& call) {
  return static_cast<std::byte const*>(call.in);
}
[[nodiscard]] inline std::byte* out_of(comm::Call const& call) {
  return static_cast<std::byte*>(call.out);
}

inline void copy_bytes(std::byte* to, std::byte const* from, std::size_t bytes) {
  if (bytes > 0 && to != from) {
    std::memcpy(to, from, bytes);
  }
}
inline void copy_bytes(std::byte* to, std::span<std::byte const> from) {
  copy_bytes(to, from.data(), from.size());
}

/// Copies to memory that other cores have read. Normal stores would first take each cache line away from those cores,
/// one after another, and take five times as long as these stores, which bypass the caches.
inline void stream_bytes(std::byte* to, std::byte const* from, std::size_t bytes) {
#if defined(__SSE2__)
  constexpr std::size_t kStep = 64;
  if (reinterpret_cast<std::uintptr_t>(to) % kStep == 0) {
    for (; bytes >= kStep; to += kStep, from += kStep, bytes -= kStep) {
      for (std::size_t i = 0; i < kStep; i += sizeof(__m128i)) {
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                         _mm_loadu_si128(reinterpret_cast<__m128i const*>(from + i)));
      }
    }
    _mm_sfence();
  }
#endif
  copy_bytes(to, from, bytes);
}

/// Whether local peers may read `in` while this rank writes `out`: they do not overlap, or the smaller one is this
/// rank's part of the larger one, at `my_part`, which no other rank uses.
[[nodiscard]] inline bool may_read_in_place(void const* in, std::size_t in_bytes, void const* out,
                                            std::size_t out_bytes, std::size_t my_part) {
  auto const a = reinterpret_cast<std::uintptr_t>(in);
  auto const b = reinterpret_cast<std::uintptr_t>(out);
  return a + in_bytes <= b || b + out_bytes <= a || (in_bytes > out_bytes ? a + my_part == b : b + my_part == a);
}

/// Elements per cache line pair: ranks do not write to each other's lines.
[[nodiscard]] inline std::size_t grain(DType type) {
  return kLine / size_of(type);
}

// ---- the exchange

struct ByteRange {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// For several ranges that are cut into windows of `length` together: the window at `at` of one of them.
[[nodiscard]] inline ByteRange window_of(ByteRange range, std::size_t at, std::size_t length) {
  std::size_t const first = std::min(at, range.bytes);
  return {range.offset + first, std::min(length, range.bytes - first)};
}

/// Which buffer of a rank.
enum class Buffer : std::uint8_t { in, out, scratch };

/// What a rank shows: `parts` ranges of one of its buffers. `part(index, p)` is part p of the buffer of rank `index`;
/// all ranks calculate the same ranges. The longest has `longest` bytes.
template <class Part>
struct Shown {
  Buffer which = Buffer::in;
  void const* mine = nullptr;  ///< start of the buffer in this process
  bool direct = false;         ///< whether the local peers can read it there
  std::size_t parts = 1;
  std::size_t longest = 0;
  Part part;

  /// Whether rank `index` shows any bytes.
  [[nodiscard]] bool any(int index) const {
    std::size_t p = 0;
    while (p < parts && part(index, p).bytes == 0) {
      ++p;
    }
    return p < parts;
  }
};
template <class Part>
Shown(Buffer, void const*, bool, std::size_t, std::size_t, Part) -> Shown<Part>;

class NodeExchange {
 public:
  explicit NodeExchange(NodeGroup& group);

  [[nodiscard]] NodeGroup& group() { return group_; }

  /// Buffers that local peers may use in place if they are in an arena. The sizes are the same on all ranks; null: not
  /// offered by this rank.
  struct Offered {
    void const* in = nullptr;
    std::size_t in_bytes = 0;
    void const* out = nullptr;
    std::size_t out_bytes = 0;
  };
  /// Publishes the call and meets. If the ranks' calls differ, throws the node's Failure.
  void enter(comm::Call const& call, Offered const& offered, Patience const& patience);

  /// After enter(): the address of that buffer of rank `index` if it is in an arena, else null.
  [[nodiscard]] std::byte* direct(int index, Buffer which) const {
    auto const i = static_cast<std::size_t>(index);
    return which == Buffer::in ? in_[i] : which == Buffer::out ? out_[i] : nullptr;
  }
  /// The offset of this rank's buffer in the segment, or Published::kElsewhere (also for null and for empty buffers).
  [[nodiscard]] std::uint64_t offset_of(void const* data, std::size_t bytes) const {
    return group_.size() == 1 || data == nullptr || bytes == 0
               ? Published::kElsewhere
               : group_.segment().offset_of(data, bytes).value_or(Published::kElsewhere);
  }
  [[nodiscard]] bool in_arena(void const* data, std::size_t bytes) const {
    return offset_of(data, bytes) != Published::kElsewhere;
  }

  /// `first()` is the first meeting, by enter() or meet(). `take(at, view)` is called for each window in order;
  /// view(index, p) is the window of that part, starting at `at` bytes of the part. With `meet_last`, returns only when
  /// no rank reads this rank's memory any more.
  template <class Part, class First, class Take>
  void show(Shown<Part> const& shown, bool meet_last, Patience const& patience, First const& first, Take const& take);
  /// Reduces part `p` of all ranks in the current window as `call` says, and multiplies it by `scale`.
  template <class View>
  void reduce(comm::Call const& call, View const& view, std::size_t p, std::byte* to, float scale = 1.0F);
  /// The same for a sum of 16-bit elements to which other nodes will add theirs: the result is f32.
  template <class View>
  void sum_to_f32(comm::Call const& call, View const& view, std::size_t p, std::byte* to);

  /// Copies `in` of the rank with index `root` to `out` of every rank.
  void broadcast(comm::Call const& call, int root, Offered const& offered, Patience const& patience);

  void meet(Patience const& patience) {
    fault_point(FaultPoint::meet);
    group_.meet(patience);
  }
  /// Advances to the next piece of staging memory, on all ranks alike.
  std::size_t next_piece() { return piece_ = (piece_ + 1) % kPieces; }
  [[nodiscard]] std::size_t piece() const { return piece_; }

 private:
  template <class View>
  void collect_inputs(View const& view, std::size_t p) {
    inputs_.clear();
    for (int j = 0; j < group_.size(); ++j) {
      inputs_.push_back(view(j, p).data());
    }
  }
  void compare(Patience const& patience);
  template <class Part>
  void copy_in(Shown<Part> const& shown, std::size_t at, std::size_t window);

  NodeGroup& group_;
  std::vector<std::byte*> in_;
  std::vector<std::byte*> out_;
  std::vector<void const*> inputs_;
  std::size_t piece_ = 0;
};

/// Bytes of each of `parts` parts that fit into a piece together: at least one element of any type, or 0 if there are
/// too many.
[[nodiscard]] inline std::size_t window_bytes(std::size_t parts) {
  std::size_t const each = kPieceBytes / std::max<std::size_t>(parts, 1);
  return each >= kLine ? each / kLine * kLine : each / 8 * 8;
}

template <class Part>
void NodeExchange::copy_in(Shown<Part> const& shown, std::size_t at, std::size_t window) {
  fault_point(FaultPoint::copy_in);
  std::byte* const to = group_.staging(group_.index(), piece_);
  for (std::size_t p = 0; p < shown.parts; ++p) {
    auto const range = window_of(shown.part(group_.index(), p), at, window);
    if (range.bytes > 0) {
      stream_bytes(to + p * window, static_cast<std::byte const*>(shown.mine) + range.offset, range.bytes);
    }
  }
}

template <class Part, class First, class Take>
void NodeExchange::show(Shown<Part> const& shown, bool meet_last, Patience const& patience, First const& first,
                        Take const& take) {
  bool const alone = group_.size() == 1;
  bool const copies = !alone && !shown.direct && shown.any(group_.index());
  std::size_t window = window_bytes(shown.parts);
  next_piece();
  if (copies && window == 0) {
    throw Failure(fail(Errc::usage, group_.name_of(group_.index()) + " would have to stage " +
                                        std::to_string(shown.parts) + " parts at once, and has room for " +
                                        std::to_string(kPieceBytes / 8) +
                                        ": give each node the same number of ranks, or use buffers of an arena"));
  }
  if (copies) {
    copy_in(shown, 0, window);
  }
  first();
  bool any_staged = false;
  bool any_direct = false;
  for (int j = 0; j < group_.size() && !alone; ++j) {
    bool const is_direct = direct(j, shown.which) != nullptr;
    any_direct = any_direct || (is_direct && shown.any(j));
    any_staged = any_staged || (!is_direct && shown.any(j));
  }
  std::size_t const staged_window = window;
  window = any_staged ? window : std::max<std::size_t>(shown.longest, 1);
  for (std::size_t at = 0;;) {
    take(at, [&](int j, std::size_t p) -> std::span<std::byte const> {
      auto const range = window_of(shown.part(j, p), at, window);
      std::byte const* const base = alone ? static_cast<std::byte const*>(shown.mine) : direct(j, shown.which);
      return {base != nullptr ? base + range.offset : group_.staging(j, piece_) + p * staged_window, range.bytes};
    });
    at += window;
    if (at >= shown.longest) {
      break;
    }
    next_piece();
    if (copies) {
      copy_in(shown, at, window);
    }
    meet(patience);
  }
  if (any_direct && meet_last) {
    meet(patience);
  }
}

template <class View>
void NodeExchange::reduce(comm::Call const& call, View const& view, std::size_t p, std::byte* to, float scale) {
  collect_inputs(view, p);
  void* const output = to;
  comm::reduce(call.type, call.op, inputs_, {&output, 1}, view(0, p).size() / size_of(call.type), scale);
}

template <class View>
void NodeExchange::sum_to_f32(comm::Call const& call, View const& view, std::size_t p, std::byte* to) {
  collect_inputs(view, p);
  comm::sum_to_f32(call.type, inputs_, reinterpret_cast<float*>(to), view(0, p).size() / size_of(call.type));
}

}  // namespace cxxrun::host
