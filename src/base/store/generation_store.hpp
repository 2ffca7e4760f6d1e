// GenerationStore: the store of one generation: its listeners, keys and connections. Shell, for store_server.cpp only;
// used on the stores' thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/core/complaints.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/socket_owners.hpp"
#include "src/base/os/tcp_sockets.hpp"
#include "src/base/store/admission.hpp"
#include "src/base/store/kv_store.hpp"
#include "src/base/store/poller.hpp"
#include "src/base/wire/store_protocol.hpp"

namespace cxxrun::store {

class GenerationStore;

// A socket and the events that it is watched for. close() or its destructor closes it, unless it was given back.
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
  TcpEnds ends;  // as they were when it was accepted
  wire::StoreDecoder decoder;
  std::string out;  // replies; the first `sent` bytes have been sent
  std::size_t sent = 0;
  std::size_t counted = 0;    // its part of GenerationStore::unsent_
  std::uint64_t reading = 0;  // its part of GenerationStore::reading_: bytes of a request that has come in part
  TimePoint took;             // when it last took bytes, or when its replies began to wait
  std::string held;           // bytes read but not decoded, because too much output is waiting
  bool resuming = false;      // `held` is about to be decoded
  bool ending = false;        // close it after one attempt to send its last replies
};
using ConnectionPtr = std::shared_ptr<Connection>;

struct Listener final : Socket {
  Listener(GenerationStore& owner, int descriptor) : Socket(descriptor), store(owner) {}
  void ready(std::uint32_t events_now) override;
  GenerationStore& store;
};
using ListenerPtr = std::shared_ptr<Listener>;

/// What all stores of a server share.
struct Reactor {
  static constexpr std::size_t kReadBytes = 64UL * 1024;
  Poller poller;
  StoreWarn warn;
  StoreLimits limits;
  std::size_t most_connections = 0;
  std::size_t connections = 0;
  std::optional<os::SocketOwners> owners;  ///< made by the first store with StoreAccess::user
  std::array<char, kReadBytes> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): untouched pages cost nothing
};

class GenerationStore : public std::enable_shared_from_this<GenerationStore> {
 public:
  GenerationStore(Reactor& reactor, StoreDoor door);
  ~GenerationStore();
  GenerationStore(GenerationStore const&) = delete;
  GenerationStore& operator=(GenerationStore const&) = delete;

  /// False with errno when the kernel watches no more sockets.
  bool start(std::vector<os::UniqueFd> listeners);
  /// Ends all connections and returns the listeners.
  std::vector<os::UniqueFd> stop();
  void accept_some(Listener& listener);
  void on_ready(ConnectionPtr const& c, std::uint32_t events);
  /// Answers to its questions.
  void on_news(std::vector<CallerNews> const& news);

 private:
  void pause_accepting(Listener& listener, int why);
  void listen_again();
  void on_accepted(os::Accepted accepted);
  void admit(ConnectionPtr const& c);
  void watch(ConnectionPtr const& c, std::uint32_t events);
  void ask_soon();
  void carry_out(CallerVerdict const& verdict);
  void on_readable(ConnectionPtr const& c);
  void serve(ConnectionPtr const& c, std::string_view input);
  bool consume(Connection& c, std::string_view input);
  bool has_room_to_read(Connection& c);
  /// Whether no more requests may be carried out until replies have been sent: the next reply may be as large.
  [[nodiscard]] bool crowded() const { return unsent_ > reactor_.limits.unsent; }
  void close_stalled();
  void send(ConnectionPtr const& c);
  void send_due();
  void send_some(ConnectionPtr const& c);
  void read_on(ConnectionPtr const& c);
  void drop(ConnectionPtr const& c);
  void warn_of(std::string_view kind, std::string line);
  void complain(Connection& c, std::string const& why);

  Reactor& reactor_;
  StoreDoor door_;
  KvStore kv_;
  WaitingCallers waiting_;
  std::uint64_t unsent_ = 0;   // replies of all connections
  std::uint64_t reading_ = 0;  // requests of all connections that have come in part
  std::vector<ListenerPtr> listeners_;
  std::unordered_map<ConnectionId, ConnectionPtr> connections_;
  std::vector<ConnectionPtr> due_;  // their replies are sent at the end of the turn
  ConnectionId next_name_ = 1;
  Complaints complaints_;
  bool asking_ = false;                 // questions will be asked at the end of the turn
  bool timing_ = false;                 // a timer runs for waiting_
  std::optional<TimePoint> told_full_;  // when it last warned that it cannot accept
};

}  // namespace cxxrun::store
