#include "src/base/store/kv_store.hpp"

#include <algorithm>
#include <cassert>
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

// Wraps around: a counter that overflows is no reason to end a job.
std::int64_t wrapping_sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

constexpr std::uint64_t kEntryBytes = 128;  // overhead of a key, roughly: nodes of two maps

// The most bytes by which a request can grow the store.
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
  std::uint64_t operator()(WaitRequest const& r) const {  // a key is held twice: in the wait and in its line
    return std::accumulate(r.keys.begin(), r.keys.end(), std::uint64_t{0},
                           [](std::uint64_t sum, auto const& key) { return sum + entry(key, key); });
  }
  std::uint64_t operator()(QueuePushRequest const& r) const { return entry(r.key, r.value); }
  std::uint64_t operator()(BarrierRequest const& r) const { return kEntryBytes + entry(r.key, r.key); }
  std::uint64_t operator()(auto const& /*others*/) const { return 0; }
};

// A key for a log line: short and printable.
std::string quoted_key(std::string_view key) {
  constexpr std::size_t kShown = 80;
  std::string out = "\"";
  for (char const c : key.substr(0, kShown)) {
    out.push_back(c >= ' ' && c <= '~' ? c : '.');
  }
  return out + (key.size() > kShown ? "...\"" : "\"");
}

}  // namespace

Waits::All::iterator Waits::start(ConnectionId who, std::uint64_t bytes) {
  forget(who);
  auto const wait = waits_.try_emplace(who).first;
  wait->second.ticket = ++tickets_;
  wait->second.bytes = bytes;
  bytes_ += bytes;
  return wait;
}

void Waits::wait_for_keys(ConnectionId who, std::vector<std::string> missing, std::uint64_t bytes) {
  Wait& wait = start(who, bytes)->second;
  wait.keys = std::move(missing);
  for (std::string const& key : wait.keys) {
    wait.left += missing_[key].emplace(wait.ticket, who).second ? 1 : 0;  // a key named twice counts once
  }
}

void Waits::wait_at_barrier(ConnectionId who, std::string key, std::int64_t world, std::uint64_t bytes) {
  Wait& wait = start(who, bytes)->second;
  wait.world = world;
  wait.keys.push_back(std::move(key));
  barriers_[wait.keys.front()].emplace(wait.ticket, who);
}

void Waits::forget(ConnectionId who) {
  auto const found = waits_.find(who);
  if (found == waits_.end()) {
    return;
  }
  for (std::string const& key : found->second.keys) {
    leave(missing_, key, found->second.ticket);
    leave(barriers_, key, found->second.ticket);
  }
  bytes_ -= found->second.bytes;
  waits_.erase(found);
}

void Waits::leave(ByKey<Line>& lines, std::string_view key, std::uint64_t ticket) {
  auto const line = lines.find(key);
  if (line != lines.end() && line->second.erase(ticket) > 0 && line->second.empty()) {
    lines.erase(line);
  }
}

void Waits::end(All::iterator wait, std::vector<ConnectionId>& woken) {
  woken.push_back(wait->first);
  bytes_ -= wait->second.bytes;
  waits_.erase(wait);
}

void Waits::on_created(std::string_view key, std::vector<ConnectionId>& woken) {
  auto const line = missing_.find(key);
  if (line == missing_.end()) {
    return;
  }
  auto const here = missing_.extract(line);
  for (auto const& [ticket, who] : here.mapped()) {
    auto const wait = waits_.find(who);
    assert(wait != waits_.end() && wait->second.left > 0);
    if (--wait->second.left == 0) {
      end(wait, woken);
    }
  }
}

void Waits::on_pushed(std::string_view key, std::vector<ConnectionId>& woken) {
  auto const before = woken.size();
  for (auto line = missing_.find(key); line != missing_.end() && woken.size() == before; line = missing_.find(key)) {
    auto const [ticket, who] = *line->second.begin();
    leave(missing_, key, ticket);
    auto const wait = waits_.find(who);
    assert(wait != waits_.end() && wait->second.left > 0);
    if (--wait->second.left == 0) {
      end(wait, woken);
    }
  }
}

void Waits::on_counted(std::string_view key, std::int64_t count, std::vector<ConnectionId>& woken) {
  auto const line = barriers_.find(key);
  if (line == barriers_.end()) {
    return;
  }
  for (auto entry = line->second.begin(); entry != line->second.end();) {
    auto const wait = waits_.find(entry->second);
    assert(wait != waits_.end());
    if (wait->second.world > count) {
      ++entry;
    } else {
      entry = line->second.erase(entry);
      end(wait, woken);
    }
  }
  if (line->second.empty()) {
    barriers_.erase(line);
  }
}

// Carries out each type of request; `out` is what apply() returns.
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
      // A missing key equals an empty expectation only. Otherwise the expectation comes back, as torch answers.
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
      kv.waits_.wait_for_keys(from, std::move(absent), bytes);
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
    kv.waits_.on_pushed(queue->first, out.woken);
  }

  void operator()(QueuePopRequest const& r) {
    auto const found = kv.queues_.find(r.key);
    if (found == kv.queues_.end() || found->second.empty()) {  // empty: there was no memory for its first element
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
    kv.waits_.on_counted(key, *count, out.woken);
    if (*count >= r.world) {
      out.reply.assign(1, kStoreStopWaiting);
    } else {
      kv.waits_.wait_at_barrier(from, std::move(key), r.world, bytes);
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
    out.reply.insert(out.reply.begin(),
                     kStoreStopWaiting);  // its WAIT came before this request, so it is answered first
  }
  return out;
}

void KvStore::replace(std::string& value, Text const& with) {
  bytes_ += with.size() - value.size();
  // In place only when little capacity stays unused, because unused capacity is not counted in bytes_.
  if (!with.is_gathered() && with.size() <= value.capacity() && value.capacity() - with.size() <= kEntryBytes / 2) {
    value.assign(with);
  } else {
    with.take().swap(value);  // move-assigning a short string would keep the long one's memory
  }
}

void KvStore::store(Text const& key, Text const& value, std::vector<ConnectionId>& woken) {
  if (auto const found = values_.find(key); found != values_.end()) {
    replace(found->second, value);
    return;
  }
  auto const entry = values_.emplace(key.take(), value.take()).first;
  bytes_ += Cost::entry(entry->first, entry->second);
  waits_.on_created(entry->first, woken);
}

}  // namespace cxxrun::store
