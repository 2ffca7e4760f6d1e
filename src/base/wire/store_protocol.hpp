// The c10d store protocol as values: requests, an incremental decoder for the server, encoders for both sides.
//
// Byte level: docs/design/store_protocol.md. Everything here is pure; no function reads a socket or a clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cxxrun::wire {

/// Longest key, in bytes. The libuv server of PyTorch has the same bound.
inline constexpr std::uint64_t kMaxStoreKeyBytes = 8ULL * 1024;
/// Longest value, in bytes; APPEND may not make one longer.
inline constexpr std::uint64_t kMaxStoreValueBytes = 64ULL * 1024 * 1024;
/// Most keys in one CHECK, WAIT, MULTI_GET or MULTI_SET.
inline constexpr std::uint64_t kMaxStoreKeys = 131072;
/// Largest sum of the lengths in one request, and so the most that a connection can make the decoder hold.
inline constexpr std::uint64_t kMaxStoreRequestBytes = 128ULL * 1024 * 1024;
/// Longest reply, in bytes; only MULTI_GET can reach it.
inline constexpr std::uint64_t kMaxStoreReplyBytes = 256ULL * 1024 * 1024;

/// The numbering of opcodes that a connection uses. Its first bytes decide, for good.
enum class StoreDialect {
  undecided,  ///< nothing, or only a zero byte, has arrived
  plain,      ///< generations A (torch up to 2.0) and B: no greeting, SET is 0
  greeted,    ///< generation C: VALIDATE came first, SET is 1
};

/// A text of a request, as a view of where the decoder found or gathered it. Valid until the decoder's next() or
/// let_go(); take() it to keep it.
class Text {
 public:
  Text() = default;
  Text(std::string_view text) : view_(text) {}    // NOLINT(google-explicit-constructor): they are text
  Text(std::string const& text) : view_(text) {}  // NOLINT(google-explicit-constructor)
  Text(char const* text) : view_(text) {}         // NOLINT(google-explicit-constructor)
  /// Of a string that take() may move out.
  static Text gathered(std::string& text) {
    Text all(text);
    all.gathered_ = &text;
    return all;
  }
  operator std::string_view() const { return view_; }  // NOLINT(google-explicit-constructor)
  [[nodiscard]] std::size_t size() const { return view_.size(); }
  [[nodiscard]] bool empty() const { return view_.empty(); }
  [[nodiscard]] char const* data() const { return view_.data(); }
  /// Call it once; the Text must not be read afterwards.
  [[nodiscard]] std::string take() const { return gathered_ != nullptr ? std::move(*gathered_) : std::string(view_); }
  [[nodiscard]] bool is_gathered() const { return gathered_ != nullptr; }

  friend bool operator==(Text const& a, Text const& b) { return a.view_ == b.view_; }

 private:
  std::string_view view_;
  std::string* gathered_ = nullptr;
};

struct SetRequest {
  Text key, value;
  bool operator==(SetRequest const&) const = default;
};
struct CompareSetRequest {
  Text key, expected, desired;
  bool operator==(CompareSetRequest const&) const = default;
};
struct GetRequest {
  Text key;
  bool operator==(GetRequest const&) const = default;
};
struct AddRequest {
  Text key;
  std::int64_t delta = 0;
  bool operator==(AddRequest const&) const = default;
};
struct CheckRequest {
  std::vector<Text> keys;
  bool operator==(CheckRequest const&) const = default;
};
struct WaitRequest {
  std::vector<Text> keys;
  bool operator==(WaitRequest const&) const = default;
};
struct NumKeysRequest {
  bool operator==(NumKeysRequest const&) const = default;
};
struct DeleteRequest {
  Text key;
  bool operator==(DeleteRequest const&) const = default;
};
struct AppendRequest {
  Text key, value;
  bool operator==(AppendRequest const&) const = default;
};
struct MultiGetRequest {
  std::vector<Text> keys;
  bool operator==(MultiGetRequest const&) const = default;
};
struct MultiSetRequest {
  std::vector<std::pair<Text, Text>> pairs;
  bool operator==(MultiSetRequest const&) const = default;
};
struct CancelWaitRequest {
  bool operator==(CancelWaitRequest const&) const = default;
};
struct PingRequest {
  std::uint32_t nonce = 0;
  bool operator==(PingRequest const&) const = default;
};
struct QueuePushRequest {
  Text key, value;
  bool operator==(QueuePushRequest const&) const = default;
};
struct QueuePopRequest {
  Text key;
  bool operator==(QueuePopRequest const&) const = default;
};
struct QueueLenRequest {
  Text key;
  bool operator==(QueueLenRequest const&) const = default;
};
struct ListKeysRequest {
  bool operator==(ListKeysRequest const&) const = default;
};
struct BarrierRequest {
  Text key;
  std::int64_t world = 0;
  bool operator==(BarrierRequest const&) const = default;
};

/// In the order of their opcodes, from 1. PING and all after it exist only in the greeted dialect.
using StoreRequest =
    std::variant<SetRequest, CompareSetRequest, GetRequest, AddRequest, CheckRequest, WaitRequest, NumKeysRequest,
                 DeleteRequest, AppendRequest, MultiGetRequest, MultiSetRequest, CancelWaitRequest, PingRequest,
                 QueuePushRequest, QueuePopRequest, QueueLenRequest, ListKeysRequest, BarrierRequest>;

/// Turns the bytes of one connection, in pieces of any size, into requests.
///
/// Total: every byte sequence gives requests, need_more, or a named error after which the decoder stays broken.
/// Bounded: a length field allocates nothing; memory follows the bytes that really came, up to the limits above.
/// Linear: no byte is read more than twice. A request that arrives in one piece is decoded in place, without a copy.
class StoreDecoder {
 public:
  enum class Status { request, need_more, broken };

  /// `dialect`: undecided, unless the caller knows it.
  explicit StoreDecoder(StoreDialect dialect = StoreDialect::undecided) : dialect_(dialect) {}

  /// Takes bytes off the front of `input` until one request is complete (stored in `request`), the input is used up, or
  /// the bytes cannot be a request. A greeting is taken silently. Texts of `request` may point into `input`.
  Status next(std::string_view& input, StoreRequest& request);
  /// Frees the memory in which the last request was gathered.
  void let_go() {
    if (stage_ == Stage::opcode && !strings_.empty()) {
      strings_ = std::vector<std::string>();
    }
  }

  [[nodiscard]] StoreDialect dialect() const { return dialect_; }
  /// Why the decoder is broken, for a log line; empty while it is not.
  [[nodiscard]] std::string const& error() const { return error_; }
  /// Heap bytes held for a request in progress.
  [[nodiscard]] std::uint64_t held_bytes() const;

 private:
  enum class Stage { opcode, count, length, bytes, number, complete, broken };

  bool take_whole(std::string_view& input, StoreRequest& request) const;
  void begin(std::uint8_t opcode);
  void begin_op(std::size_t op);
  void take_number(std::string_view& input);
  void take_count(std::uint64_t count);
  void take_length(std::uint64_t length);
  void take_bytes(std::string_view& input);
  void end_string();
  void greet(std::uint64_t magic);
  void finish(StoreRequest& request);
  void reject(std::string why);

  StoreDialect dialect_;
  Stage stage_ = Stage::opcode;
  std::size_t op_ = 0;  // greeted number
  std::uint8_t number_used_ = 0;
  std::uint64_t number_ = 0;         // a fixed-size field that arrived in pieces
  std::uint64_t strings_left_ = 0;   // of this request, including the one in progress
  std::uint64_t string_length_ = 0;  // of the string in progress
  std::uint64_t request_bytes_ = 0;  // sum of the lengths so far
  std::vector<std::string> strings_;
  std::string error_;
};

/// The first bytes of a client of generation C, before its PING.
[[nodiscard]] std::string encode_greeting();
/// One request in the numbering of `dialect` (plain or greeted), in which it must exist.
[[nodiscard]] std::string encode_request(StoreRequest const& request, StoreDialect dialect);
/// Why the server would reject this request, in the greeted numbering; "" when it would not.
[[nodiscard]] std::string refusal_of(std::string_view request);

/// The one-byte answers.
inline constexpr char kStoreReady = 0;          // CHECK
inline constexpr char kStoreNotReady = 1;       // CHECK
inline constexpr char kStoreStopWaiting = 0;    // WAIT, BARRIER
inline constexpr char kStoreWaitCancelled = 1;  // CANCEL_WAIT

/// Replies: a value (u64 length, bytes), a signed number, and the nonce of a PING. All little-endian.
[[nodiscard]] std::string encode_value_reply(std::string_view value);
void append_value_reply(std::string& out, std::string_view value);
[[nodiscard]] std::string encode_number_reply(std::int64_t number);
[[nodiscard]] std::string encode_ping_reply(std::uint32_t nonce);

}  // namespace cxxrun::wire
