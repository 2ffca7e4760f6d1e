#include <future>
#include <netdb.h>
#include <set>

#include "launcher/doctor/look.hpp"
#include "src/base/core/endpoint.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/fd_io.hpp"
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

/// As another program of this machine sees it: no address of a family that this machine has no address of
/// (AI_ADDRCONFIG). "" when there is no getent here.
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

/// What a name is, and how long that took.
struct Found {
  Result<os::Addresses> addresses;
  Millis took;
};

/// All names are asked for at once, for each takes 5 s where the first name server is dead; where no thread can be
/// started, one after the other.
template <class Work>
auto at_once(Work work) {
  return std::async(std::launch::async | std::launch::deferred, std::move(work));
}

struct AskedName {
  std::string name;
  std::future<Found> answer;
};

AskedName ask(std::string const& name, int flags = 0) {
  return {name, at_once([name, flags] {
            auto const begin = Clock::now();
            auto addresses = os::resolve(name, 0, SOCK_STREAM, flags);
            return Found{std::move(addresses), std::chrono::duration_cast<Millis>(Clock::now() - begin)};
          })};
}

/// A name for comparison: the addresses that are of use on this machine, and what getent finds.
struct Twice {
  char const* key;
  AskedName usable;
  std::future<std::string> getent;
};

Twice ask_twice(char const* key, std::string const& name) {
  return {key, ask(name, AI_ADDRCONFIG), at_once([name] { return by_getent(name); })};
}

/// Waits for answers, and says of whom.
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

void look_at_names(Wanted const& wanted, Say const& say) {
  auto own_asked = ask(wanted.host);
  std::vector<AskedName> others;
  for (auto const& name : wanted.names) {
    others.push_back(ask(name));
  }
  std::vector<Twice> twice;
  twice.push_back(ask_twice("name", wanted.host));
  auto const first = wanted.names.empty() ? wanted.host : wanted.names.front();
  if (first != wanted.host && !is_ip_literal(first)) {
    tell(say, "first.name", first);
    twice.push_back(ask_twice("first", first));
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
  tell(say, "name.unknown", join(unknown, " "));  // no job asks for more
  for (auto& [key, asked, getent] : twice) {
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
