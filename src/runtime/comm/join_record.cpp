#include "src/runtime/comm/join_record.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>
#include <map>

#include "src/base/core/text.hpp"

namespace cxxrun::comm {
namespace {

constexpr std::string_view kMagic = "cxxrun-join";

// Fields are written as length, colon, bytes, because host names and keys may contain any byte.
void put(std::string& to, std::string_view field) {
  to += std::to_string(field.size()) + ":";
  to += field;
}
/// The number type as which a field that is not text is written.
template <class T>
using Number = std::conditional_t<std::is_enum_v<T> || std::is_same_v<T, bool>, int, T>;

struct Writer {
  std::string& to;
  void operator()(std::string const& field) const { put(to, field); }
  template <class T>
  void operator()(T field, auto... /*limits*/) const {
    put(to, std::to_string(static_cast<Number<T>>(field)));
  }
};

// Takes fields off the front. After the first error all fields are empty and ok() is false.
class Fields {
 public:
  explicit Fields(std::string_view text) : rest_(text) {}

  std::string_view text() {
    std::size_t size = 0;
    auto const [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
    auto const digits = static_cast<std::size_t>(end - rest_.data());
    if (error != std::errc{} || digits == rest_.size() || *end != ':' || size > rest_.size() - digits - 1) {
      return spoil();
    }
    std::string_view const field = rest_.substr(digits + 1, size);
    rest_.remove_prefix(digits + 1 + size);
    return field;
  }
  void operator()(std::string& field) { field = text(); }
  template <class T>
  void operator()(T& field, Number<T> least = std::numeric_limits<Number<T>>::min(),
                  Number<T> most = std::numeric_limits<Number<T>>::max()) {
    auto const n = number_in<Number<T>>(text());
    if (!n || *n < least || *n > most) {
      spoil();
    } else {
      field = static_cast<T>(*n);
    }
  }
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool at_end() const { return ok_ && rest_.empty(); }

 private:
  std::string_view spoil() {
    ok_ = false;
    rest_ = {};
    return {};
  }
  std::string_view rest_;
  bool ok_ = true;
};

/// The fields in wire order, numbers with their limits. The first function has the fields that every protocol version
/// shares.
template <class Record, class Field>
void each_lasting_field(Record& record, Field& field) {
  field(record.protocol, 0);
  field(record.library);
  field(record.rank, 0);
  field(record.host);
  field(record.pid);
}
template <class Record, class Field>
void each_other_field(Record& record, Field& field) {
  field(record.nonce);
  field(record.world, 1);
  field(record.local_rank, 0);
  field(record.host_key);
  field(record.cpus);
  field(record.rail.host);
  field(record.rail.port);
  field(record.segment);
  field(record.proves, 0, 1);
  field(record.segment_of_agent, 0, 1);
  field(record.backend, 0, static_cast<int>(Backend::host));
  field(record.nccl, 0);
  field(record.device);
  field(record.nccl_host);
}

int digit_value(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 0;
}

}  // namespace

std::string encode(JoinRecord const& record) {
  std::string text;
  put(text, kMagic);
  Writer const write{text};
  each_lasting_field(record, write);
  each_other_field(record, write);
  return text;
}

std::optional<JoinRecord> decode_record(std::string_view text) {
  Fields fields(text);
  JoinRecord record;
  bool const ours = fields.text() == kMagic;
  each_lasting_field(record, fields);
  record.host = printable(record.host);
  if (!ours || !fields.ok()) {
    return std::nullopt;
  }
  if (record.protocol != kProtocol) {
    return record;
  }
  each_other_field(record, fields);
  record.rail.host = printable(record.rail.host);
  return fields.at_end() ? std::optional(record) : std::nullopt;
}

std::string encode(std::vector<JoinRecord> const& roster) {
  std::string text;
  for (JoinRecord const& record : roster) {
    put(text, encode(record));
  }
  return text;
}

std::optional<std::vector<JoinRecord>> decode_roster(std::string_view text) {
  std::vector<JoinRecord> roster;
  Fields fields(text);
  while (!fields.at_end()) {
    auto record = decode_record(fields.text());
    if (!fields.ok() || !record || record->rank != static_cast<int>(roster.size())) {
      return std::nullopt;
    }
    roster.push_back(*std::move(record));
  }
  if (roster.empty() || roster.front().world != static_cast<int>(roster.size())) {
    return std::nullopt;
  }
  return roster;
}

std::string encode(Error const& error) {
  return std::to_string(static_cast<int>(error.code)) + ":" + std::to_string(error.os_errno) + ":" + error.context;
}

Error decode_error(std::string_view text) {
  auto const first = text.find(':');
  auto const second = text.find(':', first + 1);
  auto const code = number_in<int>(text.substr(0, first));
  auto const os_errno = number_in<int>(text.substr(first + 1, second - first - 1));
  if (second == std::string_view::npos || !code || *code < 0 || *code > static_cast<int>(Errc::io) || !os_errno) {
    return {Errc::refused, printable(text, text.size()), 0};
  }
  return {static_cast<Errc>(*code), printable(text.substr(second + 1), text.size()), *os_errno};
}

std::string describe(JoinRecord const& record) {
  return rank_name(record.rank, record.host) + " (pid " + std::to_string(record.pid) + ")";
}

Error in_context(JoinRecord const& mine, Error error) {
  error.context = describe(mine) + ": " + error.context;
  return error;
}

std::optional<std::string> disagreement(JoinRecord const& mine, JoinRecord const& first) {
  if (mine.protocol != first.protocol || mine.library != first.library) {
    auto const version = [](JoinRecord const& r) {
      return "libcxxrun " + r.library + " (protocol " + std::to_string(r.protocol) + ")";
    };
    return describe(mine) + " is built with " + version(mine) + ", but " + describe(first) + " with " + version(first) +
           "; start the same build on every node";
  }
  if (mine.world != first.world) {
    return describe(mine) + " has WORLD_SIZE " + std::to_string(mine.world) + ", but " + describe(first) + " has " +
           std::to_string(first.world) + "; give all workers of a job the same";
  }
  if (mine.backend != first.backend) {
    auto const backend = [](JoinRecord const& r) {
      return describe(r) + (r.backend == Backend::nccl ? " would use NCCL on its GPU" : " the CPU (host backend)");
    };
    bool const mine_first = mine.backend == Backend::nccl;
    return backend(mine_first ? mine : first) + ", but " + backend(mine_first ? first : mine) +
           "; ask for the same on all ranks (Options::backend, CXXRUN_BACKEND)";
  }
  if (mine.nccl / 100 != first.nccl / 100) {
    return describe(mine) + " has NCCL " + nccl_version(mine.nccl) + ", but " + describe(first) + " has " +
           nccl_version(first.nccl) + "; install the same on every node";
  }
  return std::nullopt;
}

std::optional<std::string> conflict(std::vector<JoinRecord> const& roster) {
  auto const differs = [&](auto field) {
    return std::find_if(roster.begin(), roster.end(), [&](auto const& r) { return r.*field != roster.front().*field; });
  };
  if (auto const other = differs(&JoinRecord::proves);
      other != roster.end() && differs(&JoinRecord::host_key) != roster.end()) {
    auto const& with = other->proves ? *other : roster.front();
    auto const& without = other->proves ? roster.front() : *other;
    return describe(without) + " has no agent that proves it to other nodes, but " + describe(with) +
           " has; start all ranks with cxxrun, and let all of them, or none, reach the socket that CXXRUN_PROVER names";
  }
  std::map<std::pair<std::string_view, std::string_view>, JoinRecord const*> users;
  for (JoinRecord const& record : roster) {
    if (record.backend != Backend::nccl) {
      continue;
    }
    auto const [other, free] = users.try_emplace({record.device, record.nccl_host}, &record);
    if (!free) {
      return describe(*other->second) + " and " + describe(record) + " are on the same GPU, " + record.device +
             "; give each rank its own: LOCAL_RANK and CUDA_VISIBLE_DEVICES choose";
    }
  }
  return std::nullopt;
}

std::string cpu_bits(std::vector<int> const& cpus) {
  std::string text;
  for (int const cpu : cpus) {
    auto const at = static_cast<std::size_t>(cpu) / 4;
    text.resize(std::max(text.size(), at + 1), '0');
    text[at] = "0123456789abcdef"[digit_value(text[at]) | 1 << (cpu % 4)];
  }
  return text;
}

bool enough_cpus(std::vector<JoinRecord> const& roster, std::vector<int> const& ranks) {
  std::vector<unsigned> together;
  for (int const rank : ranks) {
    std::string const& cpus = roster[static_cast<std::size_t>(rank)].cpus;
    together.resize(std::max(together.size(), cpus.size()));
    for (std::size_t i = 0; i < cpus.size(); ++i) {
      together[i] |= static_cast<unsigned>(digit_value(cpus[i]));
    }
  }
  int count = 0;
  for (unsigned const digit : together) {
    count += std::popcount(digit);
  }
  return count >= static_cast<int>(ranks.size());
}

}  // namespace cxxrun::comm
