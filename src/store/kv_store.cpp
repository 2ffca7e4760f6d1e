#include "src/store/kv_store.hpp"

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
  static std::uint64_t entry(std::string const& key, std::string const& value) {
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
  StoreOutcome out{};

  [[nodiscard]] bool all_present(std::vector<std::string> const& keys) const {
    return std::all_of(keys.begin(), keys.end(), [&](std::string const& key) { return kv.present(key); });
  }

  void operator()(SetRequest&& r) { kv.store(std::move(r.key), std::move(r.value), out.woken); }

  void operator()(CompareSetRequest&& r) {
    auto const found = kv.values_.find(r.key);
    if (found == kv.values_.end()) {
      // A missing key equals an empty expectation only; any other gets its own expectation back, as from torch.
      out.reply = encode_value_reply(r.expected.empty() ? r.desired : r.expected);
      if (r.expected.empty()) {
        kv.store(std::move(r.key), std::move(r.desired), out.woken);
      }
      return;
    }
    if (found->second == r.expected) {
      kv.replace(found->second, std::move(r.desired));
    }
    out.reply = encode_value_reply(found->second);
  }

  void operator()(GetRequest&& r) {
    auto const found = kv.values_.find(r.key);
    if (found != kv.values_.end()) {
      out.reply = encode_value_reply(found->second);
    } else {
      missing(r.key);
    }
  }

  void missing(std::string const& key) {
    if (dialect == StoreDialect::plain) {
      out.close_reason = "GET of the missing key " + quoted_key(key);
    } else {
      append_value_reply(out.reply, {});
    }
  }

  void operator()(AddRequest&& r) {
    if (auto const sum = add(std::move(r.key), r.delta, "ADD")) {
      out.reply = encode_number_reply(*sum);
    }
  }

  std::optional<std::int64_t> add(std::string key, std::int64_t delta, char const* request) {
    auto const found = kv.values_.find(key);
    if (found == kv.values_.end()) {
      kv.store(std::move(key), std::to_string(delta), out.woken);
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

  void operator()(CheckRequest&& r) { out.reply.assign(1, all_present(r.keys) ? kStoreReady : kStoreNotReady); }

  void operator()(WaitRequest&& r) {
    auto const bytes = Cost{}(r);
    kv.forget(from);
    std::erase_if(r.keys, [&](std::string const& key) { return kv.present(key); });
    if (r.keys.empty()) {
      out.reply.assign(1, kStoreStopWaiting);
    } else {
      kv.waits_.for_keys(from, std::move(r.keys), bytes);
    }
  }

  void operator()(NumKeysRequest&&) { out.reply = encode_number_reply(static_cast<std::int64_t>(kv.values_.size())); }

  void operator()(DeleteRequest&& r) {
    auto const found = kv.values_.find(r.key);
    bool const existed = found != kv.values_.end();
    if (existed) {
      kv.bytes_ -= Cost::entry(found->first, found->second);
      kv.values_.erase(found);
    }
    out.reply = encode_number_reply(existed ? 1 : 0);
  }

  void operator()(AppendRequest&& r) {
    auto const found = kv.values_.find(r.key);
    if (found == kv.values_.end()) {
      kv.store(std::move(r.key), std::move(r.value), out.woken);
    } else if (found->second.size() + r.value.size() > kMaxStoreValueBytes) {
      out.close_reason = "APPEND would make the key " + quoted_key(r.key) + " longer than " +
                         std::to_string(kMaxStoreValueBytes) + " bytes";
    } else {
      found->second += r.value;
      kv.bytes_ += r.value.size();
    }
  }

  void operator()(MultiGetRequest&& r) {
    std::uint64_t total = 0;
    for (std::string const& key : r.keys) {
      auto const found = kv.values_.find(key);
      total += sizeof(std::uint64_t) + (found == kv.values_.end() ? 0 : found->second.size());
    }
    if (total > kMaxStoreReplyBytes) {
      out.close_reason = "MULTI_GET asks for more than " + std::to_string(kMaxStoreReplyBytes) + " bytes";
      return;
    }
    out.reply.reserve(total);
    for (std::string const& key : r.keys) {
      auto const found = kv.values_.find(key);
      if (found != kv.values_.end()) {
        append_value_reply(out.reply, found->second);
      } else {
        missing(key);
      }
    }
  }

  void operator()(MultiSetRequest&& r) {
    for (auto& [key, value] : r.pairs) {
      kv.store(std::move(key), std::move(value), out.woken);
    }
  }

  void operator()(CancelWaitRequest&&) {
    kv.forget(from);
    out.reply.assign(1, kStoreWaitCancelled);
  }

  void operator()(PingRequest&& r) { out.reply = encode_ping_reply(r.nonce); }

  void operator()(QueuePushRequest&& r) {
    kv.bytes_ += Cost{}(r);
    kv.queues_[r.key].push_back(std::move(r.value));
    kv.waits_.pushed(r.key, out.woken);
  }

  void operator()(QueuePopRequest&& r) {
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

  void operator()(QueueLenRequest&& r) {
    auto const found = kv.queues_.find(r.key);
    auto const length = found == kv.queues_.end() ? 0 : found->second.size();
    out.reply = encode_number_reply(static_cast<std::int64_t>(length));
  }

  void operator()(ListKeysRequest&&) {
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

  void operator()(BarrierRequest&& r) {
    auto const bytes = Cost{}(r);
    kv.forget(from);
    auto const count = add(r.key, 1, "BARRIER");
    if (!count) {
      return;
    }
    kv.waits_.counted(r.key, *count, out.woken);
    if (*count >= r.world) {
      out.reply.assign(1, kStoreStopWaiting);
    } else {
      kv.waits_.at_barrier(from, std::move(r.key), r.world, bytes);
    }
  }
};

StoreOutcome KvStore::apply(ConnectionId from, StoreDialect dialect, StoreRequest request) {
  if (dialect == StoreDialect::plain) {
    forget(from);
  }
  Apply call{*this, from, dialect};
  if (auto const cost = std::visit(Cost{}, request); cost > 0 && bytes() + cost > most_bytes_) {
    call.out.close_reason = "the store would hold more than " + std::to_string(most_bytes_) + " bytes";
  } else {
    std::visit(call, std::move(request));
  }
  if (!call.out.close_reason.empty()) {
    call.out.reply.clear();
  } else if (std::erase(call.out.woken, from) > 0) {
    call.out.reply.insert(call.out.reply.begin(), kStoreStopWaiting);  // asked for earlier, so answered first
  }
  return std::move(call.out);
}

void KvStore::replace(std::string& value, std::string with) {
  bytes_ += with.size() - value.size();
  value = std::move(with);
}

void KvStore::store(std::string key, std::string value, std::vector<ConnectionId>& woken) {
  auto const [entry, created] = values_.try_emplace(std::move(key));
  if (created) {
    bytes_ += Cost::entry(entry->first, entry->second);
  }
  replace(entry->second, std::move(value));
  if (created) {
    waits_.created(entry->first, woken);
  }
}

}  // namespace cxxrun::store
