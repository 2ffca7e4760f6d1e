#include "src/base/store/kv_store.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <utility>
#include <variant>

namespace cxxrun::store {
namespace {

using namespace cxxrun::wire;  // NOLINT(google-build-using-namespace): the request types

// The number a text starts with, as std::stoll reads it: torch's servers accept "12 apples" as 12.
std::optional<std::int64_t> leading_number(std::string_view text) {
  std::size_t const start = text.find_first_not_of(" \t\n\v\f\r");
  if (start == std::string_view::npos) {
    return std::nullopt;
  }
  text.remove_prefix(start);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') {
    text.remove_prefix(1);
  }
  std::int64_t number = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} ? std::optional(number) : std::nullopt;
}

// Wraps around like the machine does; a counter that overflows is no reason to end a job.
std::int64_t wrapping_sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

constexpr std::uint64_t kEntryBytes = 128;  // of a key beside its texts, roughly: nodes of two maps

// What a request may make the store hold more, at most.
struct Cost {
  static std::uint64_t entry(std::string_view key, std::string_view value) {
    return kEntryBytes + key.size() + value.size();
  }
  std::uint64_t operator()(SetRequest const& r) const { return entry(r.key, r.value); }
  std::uint64_t operator()(CompareSetRequest const& r) const { return entry(r.key, r.desired); }
  std::uint64_t operator()(AddRequest const& r) const { return kEntryBytes + r.key.size() + 20; }
  std::uint64_t operator()(AppendRequest const& r) const { return entry(r.key, r.value); }
  std::uint64_t operator()(MultiSetRequest const& r) const {
    return std::accumulate(r.pairs.begin(), r.pairs.end(), std::uint64_t{0},
                           [](std::uint64_t sum, auto const& pair) { return sum + entry(pair.first, pair.second); });
  }
  std::uint64_t operator()(WaitRequest const& r) const {  // a key is held twice: who waits for it, and what for
    return std::accumulate(r.keys.begin(), r.keys.end(), std::uint64_t{0},
                           [](std::uint64_t sum, auto const& key) { return sum + entry(key, key); });
  }
  std::uint64_t operator()(QueuePushRequest const& r) const { return entry(r.key, r.value); }
  std::uint64_t operator()(BarrierRequest const& r) const { return kEntryBytes + entry(r.key, r.key); }
  std::uint64_t operator()(auto const& /*others*/) const { return 0; }
};

// A key as a log line can carry it: short and printable.
std::string quoted_key(std::string_view key) {
  constexpr std::size_t kShown = 80;
  std::string out = "\"";
  for (char const c : key.substr(0, kShown)) {
    out.push_back(c >= ' ' && c <= '~' ? c : '.');
  }
  return out + (key.size() > kShown ? "...\"" : "\"");
}

}  // namespace

// One call per request type; `out` is what apply returns.
struct KvStore::Apply {
  KvStore& kv;
  ConnectionId from;
  StoreDialect dialect;
  StoreOutcome& out;

  [[nodiscard]] bool all_present(std::vector<Text> const& keys) const {
    return std::all_of(keys.begin(), keys.end(), [&](Text const& key) { return kv.present(key); });
  }

  void operator()(SetRequest const& r) { kv.store(r.key, r.value, out.woken); }

  void operator()(CompareSetRequest const& r) {
    auto const found = kv.values_.find(r.key);
    if (found == kv.values_.end()) {
      // A missing key equals an empty expectation only; any other gets its own expectation back, as from torch.
      out.reply = encode_value_reply(r.expected.empty() ? r.desired : r.expected);
      if (r.expected.empty()) {
        kv.store(r.key, r.desired, out.woken);
      }
      return;
    }
    if (found->second == r.expected) {
      kv.replace(found->second, r.desired);
    }
    out.reply = encode_value_reply(found->second);
  }

  void operator()(GetRequest const& r) {
    auto const found = kv.values_.find(r.key);
    if (found != kv.values_.end()) {
      out.reply = encode_value_reply(found->second);
    } else {
      missing(r.key);
    }
  }

  void missing(std::string_view key) {
    if (dialect == StoreDialect::plain) {
      out.close_reason = "GET of the missing key " + quoted_key(key);
    } else {
      append_value_reply(out.reply, {});
    }
  }

  void operator()(AddRequest const& r) {
    if (auto const sum = add(r.key, r.delta, "ADD")) {
      out.reply = encode_number_reply(*sum);
    }
  }

  std::optional<std::int64_t> add(Text const& key, std::int64_t delta, char const* request) {
    auto const found = kv.values_.find(key);
    if (found == kv.values_.end()) {
      kv.store(key, std::to_string(delta), out.woken);
      return delta;
    }
    auto const current = leading_number(found->second);
    if (!current) {
      out.close_reason = request + (" to the key " + quoted_key(key)) + ", whose value is not a number";
      return std::nullopt;
    }
    auto const sum = wrapping_sum(*current, delta);
    kv.replace(found->second, std::to_string(sum));
    return sum;
  }

  void operator()(CheckRequest const& r) { out.reply.assign(1, all_present(r.keys) ? kStoreReady : kStoreNotReady); }

  void operator()(WaitRequest const& r) {
    auto const bytes = Cost{}(r);
    kv.forget(from);
    std::vector<std::string> absent;
    for (Text const& key : r.keys) {
      if (!kv.present(key)) {
        absent.push_back(key.take());
      }
    }
    if (absent.empty()) {
      out.reply.assign(1, kStoreStopWaiting);
    } else {
      kv.waits_.for_keys(from, std::move(absent), bytes);
    }
  }

  void operator()(NumKeysRequest const& /*nothing*/) {
    out.reply = encode_number_reply(static_cast<std::int64_t>(kv.values_.size()));
  }

  void operator()(DeleteRequest const& r) {
    auto const found = kv.values_.find(r.key);
    bool const existed = found != kv.values_.end();
    if (existed) {
      kv.bytes_ -= Cost::entry(found->first, found->second);
      kv.values_.erase(found);
    }
    out.reply = encode_number_reply(existed ? 1 : 0);
  }

  void operator()(AppendRequest const& r) {
    auto const found = kv.values_.find(r.key);
    if (found == kv.values_.end()) {
      kv.store(r.key, r.value, out.woken);
    } else if (found->second.size() + r.value.size() > kMaxStoreValueBytes) {
      out.close_reason = "APPEND would make the key " + quoted_key(r.key) + " longer than " +
                         std::to_string(kMaxStoreValueBytes) + " bytes";
    } else {
      found->second += r.value;
      kv.bytes_ += r.value.size();
    }
  }

  void operator()(MultiGetRequest const& r) {
    std::uint64_t total = 0;
    for (Text const& key : r.keys) {
      auto const found = kv.values_.find(key);
      total += sizeof(std::uint64_t) + (found == kv.values_.end() ? 0 : found->second.size());
    }
    if (total > kMaxStoreReplyBytes) {
      out.close_reason = "MULTI_GET asks for more than " + std::to_string(kMaxStoreReplyBytes) + " bytes";
      return;
    }
    out.reply.reserve(total);
    for (Text const& key : r.keys) {
      auto const found = kv.values_.find(key);
      if (found != kv.values_.end()) {
        append_value_reply(out.reply, found->second);
      } else {
        missing(key);
      }
    }
  }

  void operator()(MultiSetRequest const& r) {
    for (auto const& [key, value] : r.pairs) {
      kv.store(key, value, out.woken);
    }
  }

  void operator()(CancelWaitRequest const& /*nothing*/) {
    kv.forget(from);
    out.reply.assign(1, kStoreWaitCancelled);
  }

  void operator()(PingRequest const& r) { out.reply = encode_ping_reply(r.nonce); }

  void operator()(QueuePushRequest const& r) {
    kv.bytes_ += Cost{}(r);
    auto queue = kv.queues_.find(r.key);
    if (queue == kv.queues_.end()) {
      queue = kv.queues_.try_emplace(r.key.take()).first;
    }
    queue->second.push_back(r.value.take());
    kv.waits_.pushed(queue->first, out.woken);
  }

  void operator()(QueuePopRequest const& r) {
    auto const found = kv.queues_.find(r.key);
    if (found == kv.queues_.end()) {
      out.reply = encode_number_reply(0);
      return;
    }
    out.reply = encode_number_reply(static_cast<std::int64_t>(found->second.size()));
    append_value_reply(out.reply, found->second.front());
    kv.bytes_ -= Cost::entry(r.key, found->second.front());
    found->second.pop_front();
    if (found->second.empty()) {
      kv.queues_.erase(found);
    }
  }

  void operator()(QueueLenRequest const& r) {
    auto const found = kv.queues_.find(r.key);
    auto const length = found == kv.queues_.end() ? 0 : found->second.size();
    out.reply = encode_number_reply(static_cast<std::int64_t>(length));
  }

  void operator()(ListKeysRequest const& /*nothing*/) {
    std::uint64_t total = 0;
    for (auto const& [key, value] : kv.values_) {
      total += sizeof(std::uint64_t) + key.size();
    }
    if (total > kMaxStoreReplyBytes) {
      out.close_reason = "LIST_KEYS asks for more than " + std::to_string(kMaxStoreReplyBytes) + " bytes";
      return;
    }
    out.reply = encode_number_reply(static_cast<std::int64_t>(kv.values_.size()));
    out.reply.reserve(out.reply.size() + total);
    for (auto const& [key, value] : kv.values_) {
      append_value_reply(out.reply, key);
    }
  }

  void operator()(BarrierRequest const& r) {
    auto const bytes = Cost{}(r);
    kv.forget(from);
    std::string key = r.key.take();
    auto const count = add(key, 1, "BARRIER");
    if (!count) {
      return;
    }
    kv.waits_.counted(key, *count, out.woken);
    if (*count >= r.world) {
      out.reply.assign(1, kStoreStopWaiting);
    } else {
      kv.waits_.at_barrier(from, std::move(key), r.world, bytes);
    }
  }
};

StoreOutcome KvStore::apply(ConnectionId from, StoreDialect dialect, StoreRequest const& request) {
  if (dialect == StoreDialect::plain) {
    forget(from);
  }
  StoreOutcome out;
  if (auto const cost = std::visit(Cost{}, request); cost > 0 && bytes() + cost > most_bytes_) {
    out.close_reason = "the store would hold more than " + std::to_string(most_bytes_) + " bytes";
  } else {
    std::visit(Apply{*this, from, dialect, out}, request);
  }
  if (!out.close_reason.empty()) {
    out.reply.clear();
  } else if (std::erase(out.woken, from) > 0) {
    out.reply.insert(out.reply.begin(), kStoreStopWaiting);  // asked for earlier, so answered first
  }
  return out;
}

void KvStore::replace(std::string& value, Text const& with) {
  bytes_ += with.size() - value.size();
  // In place only where little memory is left over: what is held but not counted has no limit.
  if (!with.is_gathered() && with.size() <= value.capacity() && value.capacity() - with.size() <= kEntryBytes / 2) {
    value.assign(with);
  } else {
    with.take().swap(value);  // a short text that is moved to a long one leaves it its memory
  }
}

void KvStore::store(Text const& key, Text const& value, std::vector<ConnectionId>& woken) {
  if (auto const found = values_.find(key); found != values_.end()) {
    replace(found->second, value);
    return;
  }
  auto const entry = values_.emplace(key.take(), value.take()).first;
  bytes_ += Cost::entry(entry->first, entry->second);
  waits_.created(entry->first, woken);
}

}  // namespace cxxrun::store
