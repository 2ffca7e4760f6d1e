// How the ranks of a rail come to know each other: every pair connects, the lower node to the higher.
//
// Ranks may start in any order: whoever does not listen yet is tried again. Strangers on the listening port (port
// scanners, another job) are turned away and cannot hold anything up.
//
// How two ranks introduce themselves to each other: rail_greeting.hpp.
#include <algorithm>
#include <cerrno>
#include <deque>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "src/base/core/rank_name.hpp"
#include "src/runtime/cpu/node/alarm.hpp"
#include "src/runtime/cpu/rails/rail_greeting.hpp"
#include "src/runtime/cpu/rails/rail_link.hpp"

namespace cxxrun::host {
namespace {

using wire::RailChannel;
using wire::RailGreeting;

constexpr int kMeetSlice = 1;         // ms between two looks at the mates
constexpr Millis kGuestTime{5000};    // how long somebody who connected may take to say who it is
constexpr std::size_t kGuests = 512;  // at once; more than a rail has ranks, and each may try again
constexpr int kAcceptsPerTurn = 64;   // a storm of callers does not keep us from those who have come
constexpr Millis kFirstPause{5};
constexpr Millis kLongestPause{500};

/// Somebody who connected to us.
struct Guest : Greeted {
  TimePoint until{};
};

/// A connection that this rank makes.
struct Dial : Greeted {
  int node = 0;
  RailChannel channel = RailChannel::data;
  bool connected = false;  // the kernel says so
  bool done = false;
  TimePoint next{};
  Millis pause = kFirstPause;
  std::string reason = "not tried yet";
};

os::UniqueFd& socket_of(Link& link, RailChannel channel) {
  return channel == RailChannel::data ? link.data : link.control;
}

/// Its other end has gone, and may have called again.
bool has_ended(os::UniqueFd const& fd) {
  char byte = 0;
  ssize_t const n = ::recv(fd.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

class Meeting {
 public:
  Meeting(RailConfig const& config, RailListener listener, Mates& mates, Patience const& patience, Links& links)
      : config_(config),
        listener_(std::move(listener.fd)),
        introducer_(config, std::move(listener.prover), mates, patience),
        mates_(mates),
        patience_(patience),
        links_(links),
        refused_(links.size()) {
    ::fcntl(listener_.get(), F_SETFL, O_NONBLOCK);
    for (int node = config.node + 1; node < static_cast<int>(links.size()); ++node) {
      for (auto const channel : {RailChannel::data, RailChannel::control}) {
        dials_.push_back({{.fd = {}, .side = wire::RailSide::caller}, node, channel});
      }
    }
  }

  void run() {
    for (auto missing = first_missing(); missing != links_.end(); missing = first_missing()) {
      mates_.held_up_by(peer(missing->node).rank);
      TimePoint const now = Clock::now();
      mates_.check(patience_);
      bool const at_once = config_.are_coming && mates_.hurried(patience_);
      if (at_once || now >= patience_.until + mates_.stopped()) {
        give_up(peer(missing->node));
      }
      for (Dial& dial : dials_) {
        if (!dial.done && !dial.fd && now >= dial.next) {
          start(dial);
        }
      }
      while (!guests_.empty() && guests_.front().until <= now) {
        guests_.pop_front();  // all have the same time: the first is the oldest
      }
      wait();
    }
    mates_.held_up_by(-1);
  }

 private:
  [[nodiscard]] RailPeer const& peer(int node) const { return config_.peers[static_cast<std::size_t>(node)]; }
  [[nodiscard]] RailPeer const& me() const { return peer(config_.node); }
  [[nodiscard]] Links::const_iterator first_missing() const {
    return std::find_if(links_.cbegin(), links_.cend(),
                        [&](Link const& link) { return link.node != config_.node && (!link.data || !link.control); });
  }
  [[nodiscard]] std::string& refused_of(int node) { return refused_[static_cast<std::size_t>(node)]; }
  static std::string name(RailPeer const& who) { return rank_name(who.rank, who.host); }

  [[noreturn]] void give_up(RailPeer const& first) {
    if (config_.are_coming) {
      throw_failure({.why = PeerFailure::Why::timeout, .rank = first.rank, .host = first.host, .error = {}},
                    config_.generation, patience_.began);
    }
    std::vector<std::string> missing;
    for (Dial const& dial : dials_) {
      if (!dial.done && dial.channel == RailChannel::data) {
        RailPeer const& who = peer(dial.node);
        missing.push_back(name(who) + " (" + who.address.host + " port " + std::to_string(who.address.port) +
                          "): " + (refused_of(dial.node).empty() ? dial.reason : refused_of(dial.node)));
      }
    }
    for (Link const& link : links_) {
      if (link.node < config_.node && (!link.data || !link.control)) {
        missing.push_back(name(peer(link.node)) + " has not connected to " + me().address.host + " port " +
                          std::to_string(me().address.port) +
                          (refused_of(link.node).empty() ? "" : "; of somebody who has: ") + refused_of(link.node));
      }
    }
    auto const waited = std::chrono::duration_cast<Millis>(patience_.until - patience_.began).count();
    throw Failure(
        fail(Errc::timeout, name(me()) + " could not connect to all nodes within " + std::to_string(waited) +
                                " ms: " + (missing.empty() ? "" : missing.front()) +
                                (missing.size() > 1 ? "; and " + std::to_string(missing.size() - 1) + " more" : "")));
  }

  void retry(Dial& dial, std::string reason) {
    dial.fd.reset();
    dial.got = 0;
    dial.proving = false;
    dial.connected = false;
    dial.reason = std::move(reason);
    dial.next = Clock::now() + dial.pause;
    dial.pause = std::min(dial.pause * 3 / 2 + Millis(1), kLongestPause);
  }

  void prepare(int fd, RailChannel channel) const {
    if (channel == RailChannel::control) {
      prepare_control(fd, config_.silence);
    } else {
      prepare_data(fd);
    }
  }

  void start(Dial& dial) {
    auto fd = begin_connect(peer(dial.node).address);
    if (!fd) {
      return retry(dial, fd.error().message());
    }
    dial.fd = std::move(*fd);
    dial.reason = "no answer to the connection attempt";
  }

  void go_on(Dial& dial) {
    if (!dial.connected) {
      return greet(dial);
    }
    switch (dial.read()) {
      case Greeted::State::incomplete: return;
      case Greeted::State::gone:
        return retry(dial, dial.proving ? "it did not take the proof of this rank"
                                        : "it closed the connection without an answer");
      case Greeted::State::complete: break;
    }
    switch (introducer_.hear_answer(dial, dial.node, dial.channel)) {
      case Introducer::Step::more: return;
      case Introducer::Step::refused: refused_of(dial.node) = dial.why; return retry(dial, dial.why);
      case Introducer::Step::done: break;
    }
    dial.done = true;
    socket_of(links_[static_cast<std::size_t>(dial.node)], dial.channel) = std::move(dial.fd);
  }

  void greet(Dial& dial) {
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(dial.fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) {
      return retry(dial, fail(Errc::closed, "cannot connect", error).message());
    }
    prepare(dial.fd.get(), dial.channel);
    if (!introducer_.greet(dial, dial.node, dial.channel)) {
      return retry(dial, "the connection broke at once");
    }
    dial.connected = true;
    dial.reason = "it does not answer";
  }

  void accept_all() {
    for (int n = 0; n < kAcceptsPerTurn; ++n) {
      os::UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!fd) {
        return;  // none, or one that has gone again
      }
      if (guests_.size() == kGuests) {
        guests_.pop_front();
      }
      guests_.push_back({{.fd = std::move(fd)}, Clock::now() + kGuestTime});
    }
  }

  /// Whether the guest is done with, either way.
  bool receive(Guest& guest) {
    auto const state = guest.read();
    if (state != Greeted::State::complete) {
      return state == Greeted::State::gone;
    }
    RailGreeting const& theirs = guest.theirs;
    auto const from = std::find_if(config_.peers.begin(), config_.peers.begin() + config_.node,
                                   [&](RailPeer const& candidate) { return candidate.rank == theirs.from; });
    auto const node = static_cast<int>(from - config_.peers.begin());
    if (theirs.magic != wire::kRailMagic || theirs.nonce != config_.nonce || node == config_.node ||
        theirs.to != me().rank || theirs.generation != config_.generation) {
      return true;
    }
    bool const known = static_cast<std::uint32_t>(theirs.channel) < wire::kRailChannels;
    if (known && stands(node, theirs.channel)) {
      return true;  // the first stands, whoever comes later with the same words
    }
    switch (introducer_.hear_call(guest, node)) {
      case Introducer::Step::more: return false;
      case Introducer::Step::refused: refused_of(node) = guest.why; return true;
      case Introducer::Step::done: break;
    }
    if (!known) {
      return true;
    }
    prepare(guest.fd.get(), theirs.channel);
    socket_of(links_[static_cast<std::size_t>(node)], theirs.channel) = std::move(guest.fd);
    return true;
  }

  [[nodiscard]] bool stands(int node, RailChannel channel) {
    auto const& standing = socket_of(links_[static_cast<std::size_t>(node)], channel);
    return standing && !has_ended(standing);
  }

  void wait() {
    watched_.assign(1, {listener_.get(), POLLIN, 0});
    for (Dial const& dial : dials_) {
      watched_.push_back({dial.done ? -1 : dial.fd.get(), static_cast<short>(dial.connected ? POLLIN : POLLOUT), 0});
    }
    for (Link const& link : links_) {
      watched_.push_back({link.ended ? -1 : link.control.get(), POLLIN, 0});
    }
    std::size_t const guests = watched_.size();
    for (Guest const& guest : guests_) {
      watched_.push_back({guest.fd.get(), POLLIN, 0});
    }
    ::poll(watched_.data(), watched_.size(), kMeetSlice);
    for (std::size_t i = 0; i < links_.size(); ++i) {
      if (watched_[1 + dials_.size() + i].revents != 0) {
        listen_to(links_[i], config_.generation, patience_);
      }
      // One that is connected already may fail while others are awaited; it may also have all it wants and leave.
      if (auto const ended = links_[i].ended; ended && *ended != PeerFailure::Why::left) {
        throw failure_of(links_[i], *ended, config_.generation, patience_);
      }
    }
    for (std::size_t i = 0; i < dials_.size(); ++i) {
      if (watched_[1 + i].revents != 0) {
        go_on(dials_[i]);
      }
    }
    std::size_t at = guests;
    std::erase_if(guests_, [&](Guest& guest) { return watched_[at++].revents != 0 && receive(guest); });
    if (watched_[0].revents != 0) {
      accept_all();
    }
  }

  RailConfig const& config_;
  os::UniqueFd listener_;
  Introducer introducer_;
  Mates& mates_;
  Patience const& patience_;
  Links& links_;
  std::vector<Dial> dials_;
  std::deque<Guest> guests_;
  std::vector<std::string> refused_;  ///< by node: why the last one that greeted as its rank is not taken for it
  std::vector<pollfd> watched_;
};

}  // namespace

void connect_rails(RailConfig const& config, RailListener listener, Mates& mates, Patience const& patience,
                   Links& links) {
  Meeting(config, std::move(listener), mates, patience, links).run();
}

}  // namespace cxxrun::host
