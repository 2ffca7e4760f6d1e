// How the ranks of a rail come to know each other: every pair connects, the lower node to the higher.
//
// Ranks may start in any order: whoever does not listen yet is tried again. Strangers on the listening port (port
// scanners, another job) are turned away and cannot hold anything up.
#include <algorithm>
#include <cerrno>
#include <deque>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "src/core/rank_name.hpp"
#include "src/host/rails/rail_link.hpp"

namespace cxxrun::host {
namespace {

using wire::RailChannel;
using wire::RailGreeting;

constexpr int kSlice = 1;             // ms between two looks at the mates
constexpr Millis kGuestTime{5000};    // how long somebody who connected may take to say who it is
constexpr std::size_t kGuests = 512;  // at once; more than a rail has ranks, and each may try again
constexpr int kAcceptsPerTurn = 64;   // a storm of callers does not keep us from those who have come
constexpr Millis kFirstPause{5};
constexpr Millis kLongestPause{500};

/// A connection on which the other side's greeting is not complete.
struct Greeted {
  os::UniqueFd fd;
  RailGreeting theirs{};
  std::size_t got = 0;

  enum class State { incomplete, complete, gone };
  State read() {
    for (;;) {
      ssize_t const n = ::recv(fd.get(), reinterpret_cast<char*>(&theirs) + got, sizeof theirs - got, MSG_DONTWAIT);
      if (n > 0) {
        got += static_cast<std::size_t>(n);
        if (got == sizeof theirs) {
          return State::complete;
        }
      } else if (n < 0 && errno == EAGAIN) {
        return State::incomplete;
      } else if (n == 0 || errno != EINTR) {
        return State::gone;
      }
    }
  }
};

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

/// A fresh socket's buffer takes a greeting whole.
bool greet(int fd, RailGreeting const& greeting) {
  return ::send(fd, &greeting, sizeof greeting, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof greeting;
}

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
  Meeting(RailConfig const& config, os::UniqueFd listener, Mates& mates, Patience const& patience, Links& links)
      : config_(config), listener_(std::move(listener)), mates_(mates), patience_(patience), links_(links) {
    ::fcntl(listener_.get(), F_SETFL, O_NONBLOCK);
    for (int node = config.node + 1; node < static_cast<int>(links.size()); ++node) {
      for (auto const channel : {RailChannel::data, RailChannel::control}) {
        dials_.push_back({{}, node, channel});
      }
    }
  }

  void run() {
    for (auto missing = first_missing(); missing != links_.end(); missing = first_missing()) {
      mates_.held_up_by(peer(missing->node).rank);
      TimePoint const now = Clock::now();
      mates_.check(patience_);
      if (now >= patience_.until + mates_.stopped()) {
        give_up();
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
  [[nodiscard]] RailGreeting greeting(int to_node, RailChannel channel) const {
    return {.channel = channel,
            .from = me().rank,
            .to = peer(to_node).rank,
            .generation = config_.generation,
            .nonce = config_.nonce};
  }
  [[nodiscard]] Links::const_iterator first_missing() const {
    return std::find_if(links_.cbegin(), links_.cend(),
                        [&](Link const& link) { return link.node != config_.node && (!link.data || !link.control); });
  }
  static std::string name(RailPeer const& who) { return rank_name(who.rank, who.host); }

  [[noreturn]] void give_up() const {
    std::vector<std::string> missing;
    for (Dial const& dial : dials_) {
      if (!dial.done && dial.channel == RailChannel::data) {
        RailPeer const& who = peer(dial.node);
        missing.push_back(name(who) + " (" + who.address.host + " port " + std::to_string(who.address.port) +
                          "): " + dial.reason);
      }
    }
    for (Link const& link : links_) {
      if (link.node < config_.node && (!link.data || !link.control)) {
        missing.push_back(name(peer(link.node)) + " has not connected to " + me().address.host + " port " +
                          std::to_string(me().address.port));
      }
    }
    auto const waited = std::chrono::duration_cast<Millis>(patience_.until - patience_.began).count();
    throw Failure(
        fail(Errc::timeout, name(me()) + " could not connect to all nodes within " + std::to_string(waited) +
                                " ms: " + (missing.empty() ? "" : missing.front()) +
                                (missing.size() > 1 ? "; and " + std::to_string(missing.size() - 1) + " more" : "")));
  }

  [[noreturn]] void versions_differ(RailPeer const& other, std::uint32_t theirs) const {
    throw Failure(fail(Errc::usage, name(other) + " speaks version " + std::to_string(theirs) +
                                        " of the protocol between nodes, " + name(me()) + " version " +
                                        std::to_string(wire::kRailVersion) +
                                        ": build all ranks with the same version of cxxrun"));
  }

  void retry(Dial& dial, std::string reason) {
    dial.fd.reset();
    dial.got = 0;
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
      int error = 0;
      socklen_t length = sizeof error;
      ::getsockopt(dial.fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
      if (error != 0) {
        return retry(dial, fail(Errc::closed, "cannot connect", error).message());
      }
      prepare(dial.fd.get(), dial.channel);
      if (!greet(dial.fd.get(), greeting(dial.node, dial.channel))) {
        return retry(dial, "the connection broke at once");
      }
      dial.connected = true;
      dial.reason = "it does not answer";
      return;
    }
    switch (dial.read()) {
      case Greeted::State::incomplete: return;
      case Greeted::State::gone: return retry(dial, "it closed the connection without an answer");
      case Greeted::State::complete: break;
    }
    RailGreeting const& theirs = dial.theirs;
    RailPeer const& other = peer(dial.node);
    if (theirs.magic != wire::kRailMagic || theirs.nonce != config_.nonce) {
      return retry(dial, "another program listens there");
    }
    if (theirs.version != wire::kRailVersion) {
      versions_differ(other, theirs.version);
    }
    if (theirs.from != other.rank || theirs.to != me().rank || theirs.generation != config_.generation ||
        theirs.channel != dial.channel) {
      return retry(dial, "another rank listens there");
    }
    dial.done = true;
    socket_of(links_[static_cast<std::size_t>(dial.node)], dial.channel) = std::move(dial.fd);
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
      guests_.push_back({{std::move(fd)}, Clock::now() + kGuestTime});
    }
  }

  /// Whether the guest is done with, either way.
  bool receive(Guest& guest) {
    auto const state = guest.read();
    if (state != Greeted::State::complete) {
      return state == Greeted::State::gone;
    }
    RailGreeting const& theirs = guest.theirs;
    if (theirs.magic != wire::kRailMagic || theirs.nonce != config_.nonce) {
      return true;
    }
    auto const from = std::find_if(config_.peers.begin(), config_.peers.begin() + config_.node,
                                   [&](RailPeer const& candidate) { return candidate.rank == theirs.from; });
    auto const node = static_cast<int>(from - config_.peers.begin());
    if (node == config_.node || theirs.to != me().rank || theirs.generation != config_.generation) {
      return true;
    }
    bool const known = static_cast<std::uint32_t>(theirs.channel) < wire::kRailChannels;
    auto& standing = socket_of(links_[static_cast<std::size_t>(node)], theirs.channel);
    if (known && standing && !has_ended(standing)) {
      return true;  // the first stands, whoever comes later with the same words
    }
    bool const answered = greet(guest.fd.get(), greeting(node, theirs.channel));
    if (theirs.version != wire::kRailVersion) {
      versions_differ(*from, theirs.version);
    }
    if (answered && known) {
      prepare(guest.fd.get(), theirs.channel);
      standing = std::move(guest.fd);
    }
    return true;
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
    ::poll(watched_.data(), watched_.size(), kSlice);
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
  Mates& mates_;
  Patience const& patience_;
  Links& links_;
  std::vector<Dial> dials_;
  std::deque<Guest> guests_;
  std::vector<pollfd> watched_;
};

}  // namespace

void connect_rails(RailConfig const& config, os::UniqueFd listener, Mates& mates, Patience const& patience,
                   Links& links) {
  Meeting(config, std::move(listener), mates, patience, links).run();
}

}  // namespace cxxrun::host
