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
/// Longest value, in bytes; also what a key may grow to by APPEND.
inline constexpr std::uint64_t kMaxStoreValueBytes = 64ULL * 1024 * 1024;
/// Most keys in one CHECK, WAIT, MULTI_GET or MULTI_SET.
inline constexpr std::uint64_t kMaxStoreKeys = 131072;
/// Sum of the lengths in one request: what a connection can make the decoder hold.
inline constexpr std::uint64_t kMaxStoreRequestBytes = 128ULL * 1024 * 1024;
/// Longest reply, in bytes; only MULTI_GET can reach it.
inline constexpr std::uint64_t kMaxStoreReplyBytes = 256ULL * 1024 * 1024;

/// Which numbering of opcodes a connection uses. Its first bytes decide; it never changes afterwards.
enum class StoreDialect {
  undecided,  ///< nothing, or only a zero byte, has arrived
  plain,      ///< generations A (torch up to 2.0) and B: no greeting, SET is 0
  greeted,    ///< generation C: VALIDATE came first, SET is 1
};

struct SetRequest {
  std::string key, value;
  bool operator==(SetRequest const&) const = default;
};
struct CompareSetRequest {
  std::string key, expected, desired;
  bool operator==(CompareSetRequest const&) const = default;
};
struct GetRequest {
  std::string key;
  bool operator==(GetRequest const&) const = default;
};
struct AddRequest {
  std::string key;
  std::int64_t delta = 0;
  bool operator==(AddRequest const&) const = default;
};
struct CheckRequest {
  std::vector<std::string> keys;
  bool operator==(CheckRequest const&) const = default;
};
struct WaitRequest {
  std::vector<std::string> keys;
  bool operator==(WaitRequest const&) const = default;
};
struct NumKeysRequest {
  bool operator==(NumKeysRequest const&) const = default;
};
struct DeleteRequest {
  std::string key;
  bool operator==(DeleteRequest const&) const = default;
};
struct AppendRequest {
  std::string key, value;
  bool operator==(AppendRequest const&) const = default;
};
struct MultiGetRequest {
  std::vector<std::string> keys;
  bool operator==(MultiGetRequest const&) const = default;
};
struct MultiSetRequest {
  std::vector<std::pair<std::string, std::string>> pairs;
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
  std::string key, value;
  bool operator==(QueuePushRequest const&) const = default;
};
struct QueuePopRequest {
  std::string key;
  bool operator==(QueuePopRequest const&) const = default;
};
struct QueueLenRequest {
  std::string key;
  bool operator==(QueueLenRequest const&) const = default;
};
struct ListKeysRequest {
  bool operator==(ListKeysRequest const&) const = default;
};
struct BarrierRequest {
  std::string key;
  std::int64_t world = 0;
  bool operator==(BarrierRequest const&) const = default;
};

/// In the order of their opcodes, from 1. From PING on they exist in the greeted dialect alone.
using StoreRequest =
    std::variant<SetRequest, CompareSetRequest, GetRequest, AddRequest, CheckRequest, WaitRequest, NumKeysRequest,
                 DeleteRequest, AppendRequest, MultiGetRequest, MultiSetRequest, CancelWaitRequest, PingRequest,
                 QueuePushRequest, QueuePopRequest, QueueLenRequest, ListKeysRequest, BarrierRequest>;

/// Turns the bytes of one connection, however they were cut, into requests.
///
/// Total: every byte sequence gives requests, a wish for more, or a named error after which it stays broken.
/// Bounded: a length field allocates nothing; memory follows the bytes that really came, up to the limits above.
/// Linear: no byte is looked at twice.
class StoreDecoder {
 public:
  enum class Status { request, need_more, broken };

  /// Eats bytes from the front of `input` until one request is complete (stored in `request`), the input is
  /// used up, or the bytes cannot be a request. The greeting is eaten silently.
  Status next(std::string_view& input, StoreRequest& request);

  [[nodiscard]] StoreDialect dialect() const { return dialect_; }
  /// Why the decoder is broken, for a log line; empty while it is not.
  [[nodiscard]] std::string const& error() const { return error_; }
  /// Heap bytes held for a request in progress.
  [[nodiscard]] std::uint64_t held_bytes() const;

 private:
  enum class Stage { opcode, count, length, bytes, number, complete, broken };

  void begin(std::uint8_t opcode);
  void begin_op(std::size_t op);
  void take_number(std::string_view& input);
  void take_count(std::uint64_t count);
  void take_length(std::uint64_t length);
  void take_bytes(std::string_view& input);
  void end_string();
  void greet(std::uint64_t magic);
  StoreRequest finish();
  void breaks(std::string why);

  StoreDialect dialect_ = StoreDialect::undecided;
  Stage stage_ = Stage::opcode;
  std::size_t op_ = 0;  // greeted number
  std::uint8_t number_used_ = 0;
  std::uint64_t number_ = 0;         // a fixed-size field that arrived in pieces
  std::uint64_t strings_left_ = 0;   // of this request, the one in progress included
  std::uint64_t string_length_ = 0;  // of the string in progress
  std::uint64_t request_bytes_ = 0;  // sum of the lengths so far
  std::vector<std::string> strings_;
  std::string error_;
};

/// What a client of generation C sends first, before its PING.
[[nodiscard]] std::string encode_greeting();
/// One request in the numbering of `dialect` (plain or greeted), in which it must exist.
[[nodiscard]] std::string encode_request(StoreRequest const& request, StoreDialect dialect);

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
