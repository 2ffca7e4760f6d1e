// What the requests of the store protocol look like in bytes: one table for its decoder and its encoders. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/base/core/bytes.hpp"
#include "src/base/wire/store_protocol.hpp"

namespace cxxrun::wire {

inline constexpr std::uint32_t kGreetingMagic = 0x3C85F7CE;

inline void append_string(std::string& out, std::string_view text) {
  put(out, static_cast<std::uint64_t>(text.size()));
  out.append(text);
}

struct Writer {
  std::string& out;
  void operator()(Text const& text) { append_string(out, text); }
  void operator()(std::integral auto number) { put(out, number); }
  void operator()(std::pair<Text, Text> const& pair) {
    append_string(out, pair.first);
    append_string(out, pair.second);
  }
  template <class Item>
  void operator()(std::vector<Item> const& items) {
    put(out, static_cast<std::uint64_t>(items.size()));
    std::for_each(items.begin(), items.end(), *this);
  }
};

// Hands out what has been decoded: the texts of one item, or of all.
struct Reader {
  Text const* next;
  std::size_t texts;
  std::uint64_t number;
  void operator()(Text& text) { text = *next++; }
  void operator()(std::integral auto& into) { into = static_cast<std::remove_reference_t<decltype(into)>>(number); }
  void operator()(std::vector<Text>& keys) { keys.assign(next, next + texts); }
  void operator()(std::vector<std::pair<Text, Text>>& pairs) {
    pairs.resize(texts / 2);
    for (auto& [key, value] : pairs) {
      (*this)(key);
      (*this)(value);
    }
  }
};

// What follows an opcode: [u64 n] strings [tail]. The first string of each item is a key, the others are values.
struct Shape {
  std::string_view name;
  std::uint8_t strings;  // per item; not counted requests have one item
  bool counted;
  std::uint8_t tail;  // bytes of the number behind the strings
  void (*read)(Reader field, StoreRequest& request);
  void (*write)(Writer field, StoreRequest const& request);
};

// `kFields` are the members of the request in the order of the wire.
template <class Request, auto... kFields>
constexpr Shape shape(std::string_view name, std::uint8_t strings, bool counted = false, std::uint8_t tail = 0) {
  auto const read = []([[maybe_unused]] Reader field, StoreRequest& into) {
    [[maybe_unused]] auto& request = into.emplace<Request>();
    (field(request.*kFields), ...);
  };
  auto const write = []([[maybe_unused]] Writer field, [[maybe_unused]] StoreRequest const& request) {
    (field(std::get<Request>(request).*kFields), ...);
  };
  return {name, strings, counted, tail, read, write};
}

inline constexpr std::size_t kGreeting = 0;
inline constexpr std::size_t kSet = 1;
inline constexpr std::size_t kCancelWait = 12;
// By the numbers of the greeted dialect; the plain one has SET..NUMKEYS one lower, and ends with CANCEL_WAIT.
inline constexpr std::array<Shape, 19> kShapes{
    Shape{"VALIDATE", 0, false, 4, nullptr, nullptr},
    shape<SetRequest, &SetRequest::key, &SetRequest::value>("SET", 2),
    shape<CompareSetRequest, &CompareSetRequest::key, &CompareSetRequest::expected, &CompareSetRequest::desired>(
        "COMPARE_SET", 3),
    shape<GetRequest, &GetRequest::key>("GET", 1),
    shape<AddRequest, &AddRequest::key, &AddRequest::delta>("ADD", 1, false, 8),
    shape<CheckRequest, &CheckRequest::keys>("CHECK", 1, true),
    shape<WaitRequest, &WaitRequest::keys>("WAIT", 1, true),
    shape<NumKeysRequest>("NUMKEYS", 0),
    shape<DeleteRequest, &DeleteRequest::key>("DELETE_KEY", 1),
    shape<AppendRequest, &AppendRequest::key, &AppendRequest::value>("APPEND", 2),
    shape<MultiGetRequest, &MultiGetRequest::keys>("MULTI_GET", 1, true),
    shape<MultiSetRequest, &MultiSetRequest::pairs>("MULTI_SET", 2, true),
    shape<CancelWaitRequest>("CANCEL_WAIT", 0),
    shape<PingRequest, &PingRequest::nonce>("PING", 0, false, 4),
    shape<QueuePushRequest, &QueuePushRequest::key, &QueuePushRequest::value>("QUEUE_PUSH", 2),
    shape<QueuePopRequest, &QueuePopRequest::key>("QUEUE_POP", 1),
    shape<QueueLenRequest, &QueueLenRequest::key>("QUEUE_LEN", 1),
    shape<ListKeysRequest>("LIST_KEYS", 0),
    shape<BarrierRequest, &BarrierRequest::key, &BarrierRequest::world>("BARRIER", 1, false, 8),
};
inline constexpr std::uint8_t kPlainWatchKey = 7;  // nobody offers it; the numbers above are the same in both dialects

// The greeted number of an opcode; kNone for what is not offered.
inline constexpr std::uint8_t kNone = 0xFF;
constexpr std::uint8_t op_of(StoreDialect dialect, std::uint8_t opcode) {
  bool const plain = dialect == StoreDialect::plain;
  if ((plain && opcode == kPlainWatchKey) || opcode > (plain ? kCancelWait : kShapes.size() - 1)) {
    return kNone;
  }
  return plain && opcode < kPlainWatchKey ? static_cast<std::uint8_t>(opcode + 1) : opcode;
}

}  // namespace cxxrun::wire
