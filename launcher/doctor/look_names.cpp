#include <netdb.h>
#include <set>

#include "launcher/doctor/look.hpp"
#include "src/core/endpoint.hpp"
#include "src/core/text.hpp"
#include "src/os/fd_io.hpp"
#include "src/os/local_address.hpp"
#include "src/os/spawn.hpp"
#include "src/os/system.hpp"

namespace cxxrun::launcher::doctor {
namespace {

constexpr std::size_t kMostText = std::size_t{64} * 1024;

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
  auto const text = os::read_all(asked->output.get(), kMostText).value_or("");
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

}  // namespace

void look_at_names(Wanted const& wanted, Say const& say) {
  auto const ask = [&say](std::string const& name, int flags = 0) {
    tell(say, "name.asked", name);
    return os::resolve(name, 0, SOCK_STREAM, flags);
  };
  auto const own = ask(wanted.host);
  tell(say, own ? "name.addresses" : "name.error", own ? joined(addresses_of(*own)) : own.error().context);
  std::vector<std::string> unknown;
  for (auto const& name : wanted.names) {
    if (!ask(name)) {
      unknown.push_back(name);
    }
  }
  tell(say, "name.unknown", join(unknown, " "));  // no job asks for more
  auto const compare = [&](std::string const& name, std::string const& key) {
    auto const usable = ask(name, AI_ADDRCONFIG);
    tell(say, key + ".usable", usable ? joined(addresses_of(*usable)) : "nothing");
    tell(say, key + ".getent", by_getent(name));
  };
  compare(wanted.host, "name");
  auto const first = wanted.names.empty() ? wanted.host : wanted.names.front();
  if (first != wanted.host && !is_ip_literal(first)) {
    tell(say, "first.name", first);
    compare(first, "first");
  }
  if (own) {
    tell(say, "name.asked", address_text(os::tcp_end_of((*own)->ai_addr)));
    tell(say, "name.back", back_name(**own));
  }
}

}  // namespace cxxrun::launcher::doctor
