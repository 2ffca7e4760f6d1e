// The sockets of the stores' thread: what is waited for on each, and what a connection holds. Shell header: for
// the stores only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/store/kv_store.hpp"
#include "src/base/store/poller.hpp"
#include "src/base/wire/store_protocol.hpp"

namespace cxxrun::store {

class GenerationStore;

// A socket and what is waited for on it. Closed once: by close(), or with its owner, unless it was given back.
struct Socket : Watched {
  explicit Socket(int descriptor) : fd(descriptor) {}

  [[nodiscard]] bool open() const { return fd.get() >= 0; }
  [[nodiscard]] bool watch(Poller& poller, std::uint32_t wanted, std::shared_ptr<Watched> self) {
    events = wanted;
    id = poller.watch(fd.get(), wanted, std::move(self));
    return id != 0;
  }
  void want(Poller& poller, std::uint32_t wanted) {
    if (open() && std::exchange(events, wanted) != wanted) {
      poller.change(fd.get(), id, wanted);
    }
  }
  [[nodiscard]] os::UniqueFd give_back(Poller& poller) {
    if (open()) {
      poller.forget(fd.get(), id);
    }
    return std::move(fd);
  }
  void close(Poller& poller) { static_cast<void>(give_back(poller)); }

  os::UniqueFd fd;
  Poller::Id id = 0;
  std::uint32_t events = 0;
};

struct Connection final : Socket, std::enable_shared_from_this<Connection> {
  Connection(GenerationStore& owner, int descriptor, ConnectionId connection_name, TcpEnds const& both)
      : Socket(descriptor), store(owner), name(connection_name), ends(both) {}

  void ready(std::uint32_t events_now) override;
  [[nodiscard]] std::size_t unsent() const { return out.size() - sent; }

  GenerationStore& store;
  ConnectionId name;
  TcpEnds ends;  // as they were when it came
  wire::StoreDecoder decoder;
  std::string out;  // replies; the first `sent` bytes are gone already
  std::size_t sent = 0;
  std::size_t counted = 0;    // of unsent(), in the sum over all
  std::uint64_t reading = 0;  // of a request that has come in part, in the sum over all
  TimePoint took;             // when it last took something, or its replies began to wait
  std::string held;           // read but not decoded, because too much output is waiting
  bool resuming = false;      // `held` is about to be decoded
  bool ending = false;        // to be closed when its last replies have been tried
};
using ConnectionPtr = std::shared_ptr<Connection>;

struct Listener final : Socket {
  Listener(GenerationStore& owner, int descriptor) : Socket(descriptor), store(owner) {}
  void ready(std::uint32_t events_now) override;
  GenerationStore& store;
};
using ListenerPtr = std::shared_ptr<Listener>;

}  // namespace cxxrun::store
