#include <future>
#include <netdb.h>
#include <set>

#include "launcher/doctor/look.hpp"
#include "src/base/core/endpoint.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/local_address.hpp"
#include "src/base/os/spawn.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::launcher::doctor {
namespace {

constexpr std::size_t kMostAnswer = std::size_t{64} * 1024;

std::string joined(std::set<std::string> const& addresses) {
  return join({addresses.begin(), addresses.end()}, " ");
}

std::set<std::string> addresses_of(os::Addresses const& list) {
  std::set<std::string> found;
  for (auto const* each = list.get(); each != nullptr; each = each->ai_next) {
    if (auto text = os::plain_address(os::tcp_end_of(each->ai_addr)); !text.empty()) {
      found.insert(std::move(text));
    }
  }
  return found;
}

/// The addresses that getent finds, or "nothing"; "" if there is no getent. Link-local ones are left out, and getent
/// itself omits families of which this machine has no address (AI_ADDRCONFIG).
std::string by_getent(std::string const& name) {
  auto const asked = os::spawn_piped({"getent", "ahosts", name}, as_words(os::read_environment()));
  if (!asked) {
    return "";
  }
  auto const text = os::read_all(asked->output.get(), kMostAnswer).value_or("");
  std::set<std::string> found;
  for (auto const& line : split(text, '\n')) {
    auto const address = line.substr(0, line.find(' '));
    if (!address.empty() && !address.starts_with("fe80:")) {
      found.insert(address);
    }
  }
  return found.empty() ? "nothing" : joined(found);
}

std::string back_name(addrinfo const& address) {
  std::string name(NI_MAXHOST, '\0');
  int const error = getnameinfo(address.ai_addr, address.ai_addrlen, name.data(), static_cast<socklen_t>(name.size()),
                                nullptr, 0, NI_NAMEREQD);
  return error == 0 ? name.substr(0, name.find('\0')) : "";
}

/// The result of a lookup and how long it took.
struct Lookup {
  Result<os::Addresses> addresses;
  Millis took;
};

/// Runs lookups in parallel, because each takes 5 s if the first name server is dead; one after the other if no thread
/// can be started.
template <class Work>
auto at_once(Work work) {
  return std::async(std::launch::async | std::launch::deferred, std::move(work));
}

struct AskedName {
  std::string name;
  std::future<Lookup> answer;
};

AskedName ask(std::string const& name, int flags = 0) {
  return {name, at_once([name, flags] {
            auto const begin = Clock::now();
            auto addresses = os::resolve(name, 0, SOCK_STREAM, flags);
            return Lookup{std::move(addresses), std::chrono::duration_cast<Millis>(Clock::now() - begin)};
          })};
}

/// A name that is resolved both ways, as cxxrun and as getent do it.
struct Comparison {
  char const* key;
  AskedName usable;
  std::future<std::string> getent;
};

Comparison compare_name(char const* key, std::string const& name) {
  return {key, ask(name, AI_ADDRCONFIG), at_once([name] { return by_getent(name); })};
}

/// Waits for answers. Reports each name before it waits, so that a hang can be blamed on it, and the slowest one.
struct Waiting {
  Say const& say;
  Millis slowest{0};

  Result<os::Addresses> wait_for(AskedName& asked) {
    tell(say, "name.asked", asked.name);
    auto found = asked.answer.get();
    if (found.addresses && found.took > slowest) {
      slowest = found.took;
      tell(say, "name.slowest", asked.name);
      tell(say, "name.slowest_ms", std::to_string(slowest.count()));
    }
    return std::move(found.addresses);
  }
};

}  // namespace

void look_at_names(LookOptions const& wanted, Say const& say) {
  auto own_asked = ask(wanted.host);
  std::vector<AskedName> others;
  for (auto const& name : wanted.names) {
    others.push_back(ask(name));
  }
  std::vector<Comparison> comparisons;
  comparisons.push_back(compare_name("name", wanted.host));
  auto const first = wanted.names.empty() ? wanted.host : wanted.names.front();
  if (first != wanted.host && !is_ip_literal(first)) {
    tell(say, "first.name", first);
    comparisons.push_back(compare_name("first", first));
  }
  Waiting waiting{say};
  auto const own = waiting.wait_for(own_asked);
  tell(say, own ? "name.addresses" : "name.error", own ? joined(addresses_of(*own)) : own.error().context);
  std::vector<std::string> unknown;
  for (auto& other : others) {
    if (!waiting.wait_for(other)) {
      unknown.push_back(other.name);
    }
  }
  tell(say, "name.unknown", join(unknown, " "));  // this is all that a job asks for
  for (auto& [key, asked, getent] : comparisons) {
    auto const usable = waiting.wait_for(asked);
    tell(say, std::string(key) + ".usable", usable ? joined(addresses_of(*usable)) : "nothing");
    tell(say, std::string(key) + ".getent", getent.get());
  }
  if (own) {
    tell(say, "name.asked", address_text(os::tcp_end_of((*own)->ai_addr)));
    tell(say, "name.back", back_name(**own));
  }
}

}  // namespace cxxrun::launcher::doctor
