// GenerationStore: the store of one generation: its listeners, keys and connections. Shell header: for
// store_server.cpp and its own source only. Used on the stores' thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/base/core/complaints.hpp"
#include "src/base/os/listening.hpp"
#include "src/base/os/socket_owners.hpp"
#include "src/base/store/kv_store.hpp"
#include "src/base/store/poller.hpp"
#include "src/base/store/store_connection.hpp"
#include "src/base/store/store_terms.hpp"

namespace cxxrun::store {

/// What all stores of a server share.
struct Reactor {
  static constexpr std::size_t kReadBytes = 64UL * 1024;
  Poller poller;
  StoreWarn warn;
  StoreLimits limits;
  std::size_t most_connections = 0;
  std::size_t connections = 0;
  std::optional<os::SocketOwners> owners;  ///< once a store asks whose its callers are
  std::array<char, kReadBytes> buffer;     // NOLINT(cppcoreguidelines-pro-type-member-init): pages touched when used
};

class GenerationStore : public std::enable_shared_from_this<GenerationStore> {
 public:
  GenerationStore(Reactor& reactor, StoreDoor door);
  ~GenerationStore();
  GenerationStore(GenerationStore const&) = delete;
  GenerationStore& operator=(GenerationStore const&) = delete;

  /// False and errno: the kernel watches no more sockets.
  bool start(std::vector<os::UniqueFd> listeners);
  /// Ends all connections. Returns the listeners, which are closed with the sockets.
  std::vector<os::UniqueFd> stop();
  void accept_some(Listener& listener);
  void on_ready(ConnectionPtr const& c, std::uint32_t events);
  /// What became of its questions.
  void hear(std::vector<CallerNews> const& news);

 private:
  void pause_accepting(Listener& listener, int why);
  void listen_again();
  void meet(os::Accepted accepted);
  void let_in(ConnectionPtr const& c);
  void keep(ConnectionPtr const& c, std::uint32_t events);
  void ask_soon();
  void conclude(CallerVerdict const& verdict);
  void on_readable(ConnectionPtr const& c);
  void serve(ConnectionPtr const& c, std::string_view input);
  bool consume(Connection& c, std::string_view input);
  bool has_room_to_read(Connection& c);
  /// Nobody is given more replies while so many wait, for a second one may be as large.
  [[nodiscard]] bool crowded() const { return unsent_ > reactor_.limits.unsent; }
  void thin_out();
  void send(ConnectionPtr const& c);
  void send_due();
  void send_some(ConnectionPtr const& c);
  void go_on(ConnectionPtr const& c);
  void drop(ConnectionPtr const& c);
  void say(std::string_view kind, std::string line);
  void complain(Connection& c, std::string const& why);

  Reactor& reactor_;
  StoreDoor door_;
  KvStore kv_;
  WaitingCallers waiting_;
  std::uint64_t unsent_ = 0;   // replies of all connections
  std::uint64_t reading_ = 0;  // requests of all connections that have come in part
  std::vector<ListenerPtr> listeners_;
  std::unordered_map<ConnectionId, ConnectionPtr> connections_;
  std::vector<ConnectionPtr> due_;  // whose replies leave at the end of the turn
  ConnectionId next_name_ = 1;
  Complaints complaints_;
  bool asking_ = false;                 // a question is about to be asked
  bool timing_ = false;                 // a timer runs for those that wait
  std::optional<TimePoint> told_full_;  // when it was said last that no connection can be accepted
};

}  // namespace cxxrun::store
