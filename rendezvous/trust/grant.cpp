#include "rendezvous/trust/grant.hpp"

#include <algorithm>
#include <sodium.h>

namespace cxxrun::rendezvous {
namespace {

constexpr std::string_view kHead = "cxxrun key 2:";
constexpr std::size_t kLongestName = 80;
constexpr std::size_t kKept = 40;  ///< bytes kept of a longer name
constexpr std::string_view kOtherRun = "this is ";

/// Takes `size` bytes off the front; nothing: there are fewer.
std::optional<std::string_view> take(std::string_view& bytes, std::size_t size) {
  if (bytes.size() < size) {
    return std::nullopt;
  }
  auto const taken = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return taken;
}

std::optional<std::size_t> take_number(std::string_view& bytes) {
  auto const byte = take(bytes, 1);
  return byte ? std::optional<std::size_t>(static_cast<unsigned char>(byte->front())) : std::nullopt;
}

std::string short_name(std::string const& name) {
  return name.size() <= kLongestName
             ? name
             : name.substr(0, kKept) + "…" + key_text(derive(Key(), "cxxrun run", name)).substr(0, 32);
}

RunNames short_names(RunNames const& names) {
  RunNames all;
  std::transform(names.begin(), names.end(), std::back_inserter(all), short_name);
  return all;
}

}  // namespace

CallId id_of_call(std::string_view call) {
  Key const derived = derive(Key(), "cxxrun call", call);
  CallId id{};
  std::copy_n(derived.bytes().begin(), id.size(), id.begin());
  return id;
}

std::string write_grant(Grant const& grant) {
  std::string bytes;
  bytes.reserve(kHead.size() + Key::kBytes + 2 + grant.runs.size() * (kLongestName + 1) +
                grant.calls.size() * CallId{}.size());  // so that no outgrown buffer keeps the key
  bytes.append(kHead);
  bytes.append(grant.key.bytes().begin(), grant.key.bytes().end());
  bytes.push_back(static_cast<char>(grant.runs.size()));
  for (auto const& name : short_names(grant.runs)) {
    bytes.push_back(static_cast<char>(name.size()));
    bytes.append(name);
  }
  bytes.push_back(static_cast<char>(grant.calls.size()));
  for (auto const& call : grant.calls) {
    bytes.append(call.begin(), call.end());
  }
  return bytes;
}

std::optional<Grant> read_grant(std::string_view bytes) {
  if (!bytes.starts_with(kHead)) {
    return std::nullopt;
  }
  bytes.remove_prefix(kHead.size());
  auto const key = take(bytes, Key::kBytes);
  auto const names = key ? take_number(bytes) : std::nullopt;
  if (!names || *names > kMostNames) {
    return std::nullopt;
  }
  Grant grant;
  Key::Bytes secret{};
  std::copy(key->begin(), key->end(), secret.begin());
  grant.key = Key(secret);
  sodium_memzero(secret.data(), secret.size());
  for (std::size_t i = 0; i < *names; ++i) {
    auto const length = take_number(bytes);
    auto const name = length ? take(bytes, *length) : std::nullopt;
    if (!name) {
      return std::nullopt;
    }
    grant.runs.emplace_back(*name);
  }
  auto const calls = take_number(bytes);
  if (!calls || *calls > kMostCalls || bytes.size() != *calls * CallId{}.size()) {
    return std::nullopt;
  }
  grant.calls.resize(*calls);
  for (auto& call : grant.calls) {
    auto const id = *take(bytes, call.size());
    std::copy(id.begin(), id.end(), call.begin());
  }
  return grant;
}

Result<Key> take_key(Grant const& grant, RunNames const& runs, CallId const& call) {
  auto const wanted = short_names(runs);
  bool const shared = std::any_of(wanted.begin(), wanted.end(), [&](auto const& name) {
    return std::find(grant.runs.begin(), grant.runs.end(), name) != grant.runs.end();
  });
  if (!shared && !(wanted.empty() && grant.runs.empty())) {
    auto const name = [](RunNames const& names) { return names.empty() ? "no run that has a name" : names.front(); };
    return fail(Errc::refused, std::string(kOtherRun) + name(grant.runs) + ", not " + name(wanted));
  }
  if (std::find(grant.calls.begin(), grant.calls.end(), call) == grant.calls.end()) {
    return fail(Errc::refused, "it replays an answer to another connection");
  }
  return grant.key;
}

bool is_of_another_run(std::string_view why) {
  return why.starts_with(kOtherRun);
}

}  // namespace cxxrun::rendezvous
