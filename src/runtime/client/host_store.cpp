#include "src/runtime/client/host_store.hpp"

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <system_error>

#include "src/base/store/store_server.hpp"

namespace cxxrun::client {
namespace {

// Never destroyed: exit() in one thread must not take the store from under another.
struct Hosted {
  std::mutex mutex;
  std::unique_ptr<store::StoreServer> server;
  std::set<std::uint16_t> ports;
};

Hosted& hosted() {
  static auto* const it = new Hosted;  // NOLINT(cppcoreguidelines-owning-memory)
  return *it;
}

// Not every address that leads to this machine only: at 127.0.0.2 a store that listens at 127.0.0.1 is not found.
bool is_where_loopback_listens(std::string const& host) {
  return host == "localhost" || host == "127.0.0.1" || host == "::1";
}

Error explain(Error error, std::uint16_t port) {
  std::string const what = "rank 0 is to host the store, but ";
  error.context = error.code == Errc::in_use
                      ? what + "port " + std::to_string(port) +
                            " is taken by another program on this machine; choose another MASTER_PORT on all ranks"
                      : what + error.context;
  return error;
}

}  // namespace

Result<void> host_store(StoreAddress const& address) {
  Hosted& here = hosted();
  std::lock_guard const lock(here.mutex);
  if (here.ports.contains(address.port)) {
    return {};
  }
  try {
    if (!here.server) {
      here.server = std::make_unique<store::StoreServer>();
    }
    here.server->begin();
  } catch (std::system_error const& error) {
    return explain(fail(Errc::io, "there is no thread for it", error.code().value()), address.port);
  }
  auto const port = here.server->open(address.port, {address.port, is_where_loopback_listens(address.host)});
  if (!port) {
    return explain(port.error(), address.port);
  }
  here.ports.insert(*port);
  return {};
}

}  // namespace cxxrun::client
