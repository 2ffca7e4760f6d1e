// Network: connections between the processes of a World. Each direction is a FIFO with random delays; nothing orders
// one connection against another. A cut holds what is on its way (TCP sends again) or answers with resets (a firewall).
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <variant>

#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/values/connection.hpp"
#include "tests/simulation/world.hpp"

namespace cxxrun::simulation {

using HostId = std::uint32_t;
using Port = std::uint16_t;
/// The bytes of a frame as they are. All others stand for sealed ones that have opened: honest ends know the key.
struct Raw {
  std::string bytes;
};
using Frame = std::variant<rendezvous::Hello, rendezvous::HelloReply, rendezvous::ToAgent, rendezvous::ToCoordinator,
                           rendezvous::Beat, rendezvous::BeatAck, Raw>;
[[nodiscard]] std::string text_of(Frame const& frame);

struct Address {
  HostId host = 0;
  Port port = 0;
  auto operator<=>(Address const&) const = default;
};

enum class Cut {
  drop,    ///< nothing arrives
  reject,  ///< a firewall that answers: RST on a connection, refused when calling
};

/// One end of a connection. Its owner sets the handlers; a dead owner's are never called.
struct End {
  HostId host = 0;
  std::function<void(Frame const&)> received;
  std::function<void(rendezvous::Ended)> closed;
  bool open = true;
  // What travels towards this end.
  struct Item {
    std::optional<Frame> frame;  ///< nothing: the end of the stream
    rendezvous::Ended ended = rendezvous::Ended::goodbye;
  };
  std::deque<Item> incoming;  ///< in order; the first `due` of them have a delivery scheduled
  std::deque<Item> held;      ///< arrived at a cut
  Micros last_arrival = 0;
  End* peer = nullptr;
};
using EndPtr = End*;  ///< the Network owns them all until it goes

struct Called {
  EndPtr end = nullptr;  ///< nothing: it failed
  bool refused = false;  ///< nobody listens there
};

class Network {
 public:
  explicit Network(World& world) : world_(world) {}

  Micros least_delay = 100;
  Micros most_delay = 3'000;
  Micros call_timeout = 1'000'000;  ///< of a call that nobody answers
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  bool counts_bytes = false;
  std::function<void(EndPtr from, Frame const&)> overheard;  ///< by whom is no end; may be empty

  /// Who calls `at` is accepted by `accepts`; without one the call hangs (a listener that nobody serves).
  void listen(Address at, std::function<void(EndPtr)> accepts) { listeners_[at] = std::move(accepts); }
  void close(Address at);
  [[nodiscard]] auto const& listeners() const { return listeners_; }

  void call(HostId from, Address to, std::function<void(Called)> done);
  void send(EndPtr from, Frame frame);
  /// After what was sent; without a goodbye when its owner is dead, and by a reset when that has left something unread.
  void hang_up(EndPtr from, rendezvous::Ended ended = rendezvous::Ended::goodbye);
  /// Both sides hear of a reset.
  void reset(EndPtr one);

  void cut(HostId from, HostId to, Cut how) { cuts_[{from, to}] = how; }
  /// What was held goes on, in order; a connection may have died of it meanwhile.
  void heal(HostId from, HostId to, bool connections_died);
  void heal_all(int percent_died);
  [[nodiscard]] bool is_cut(HostId from, HostId to) const { return cuts_.contains({from, to}); }
  [[nodiscard]] std::map<std::pair<HostId, HostId>, Cut> const& cuts() const { return cuts_; }
  /// The host is no more: nothing leaves it, nothing arrives, nobody is told.
  void host_dies(HostId host) { dead_hosts_.insert(host); }
  [[nodiscard]] std::deque<End>& ends() { return ends_; }

 private:
  void put(EndPtr to, End::Item item);
  void arrive(EndPtr to);
  void deliver(EndPtr to, End::Item const& item);
  [[nodiscard]] Micros delay(HostId from, HostId to);
  [[nodiscard]] std::optional<Cut> cut_at(HostId from, HostId to) const;

  World& world_;
  std::map<Address, std::function<void(EndPtr)>> listeners_;
  std::map<Address, std::vector<std::function<void()>>> hanging_;  ///< ends of calls that nobody serves
  std::map<std::pair<HostId, HostId>, Cut> cuts_;
  std::set<HostId> dead_hosts_;
  std::deque<End> ends_;
};

}  // namespace cxxrun::simulation
