// Connects the ranks of a rail: every pair connects, the lower node to the higher.
//
// Ranks may start in any order, so connecting to a rank that does not listen yet is retried. Unknown callers on the
// listening port (port scanners, another job) are rejected and cannot block anything.
//
// Both sides greet, the caller first. With a prover the caller then proves itself, and after it the rank that was
// called: a stranger that calls gets no proof. Nothing that an unproven end says may throw: its connection is closed,
// and ranks that are missing at the deadline are named.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <deque>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>

#include "cxxrun/failure.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/local_address.hpp"
#include "src/base/os/random.hpp"
#include "src/base/os/tcp_sockets.hpp"
#include "src/runtime/cpu/common/waiting.hpp"
#include "src/runtime/cpu/node/alarm.hpp"
#include "src/runtime/cpu/rails/rail_link.hpp"

namespace cxxrun::host {
namespace {

using wire::RailChannel;
using wire::RailGreeting;
using wire::RailSide;

// ---- the greeting of two ranks

/// A connection between two ranks until both have said who they are and, if required, have proven it.
struct Handshake {
  os::UniqueFd fd;
  wire::RailSide side = wire::RailSide::called;  ///< this rank's side
  wire::RailGreeting mine{};
  wire::RailGreeting theirs{};
  std::array<char, wire::kRailProof> proof{};  ///< the other side's proof
  std::size_t got = 0;                         ///< bytes received of the greeting, or after it of the proof
  bool proving = false;                        ///< both have greeted; the proof comes next
  std::string why{};                           ///< the reason for refusing it

  enum class State { incomplete, complete, gone };
  /// Reads the next greeting or proof.
  State read();
  /// From now on read() reads the proof.
  void await_proof();
  [[nodiscard]] bool send(std::string const& bytes) const;
};

/// This rank's part in greeting and proving.
class Authenticator {
 public:
  /// `prover` may be null: then a peer that knows the nonce is trusted. The other arguments must outlive this object.
  Authenticator(RailConfig const& config, std::unique_ptr<worker::RailProver> prover, LocalPeers& local_peers,
                Patience const& patience)
      : config_(config), prover_(std::move(prover)), local_peers_(local_peers), patience_(patience) {}

  /// Sends the greeting. False: the connection broke at once.
  [[nodiscard]] bool greet(Handshake& end, int node, wire::RailChannel channel) const;

  /// more: there is more to read; refused: `end.why` has the reason; done: the peer is the expected rank.
  enum class Step { more, refused, done };
  /// Handles what was read from the rank of `node`, which this rank called. Throws Failure, also of local peers.
  Step on_answer(Handshake& end, int node, wire::RailChannel channel);
  /// Handles what was read from a caller that claims to be the rank of `node`.
  Step on_call(Handshake& end, int node);

 private:
  [[nodiscard]] RailPeer const& peer(int node) const { return config_.peers[static_cast<std::size_t>(node)]; }
  [[nodiscard]] RailPeer const& me() const { return peer(config_.node); }
  [[noreturn]] void versions_differ(RailPeer const& other, std::uint32_t theirs) const;
  [[noreturn]] void proofs_differ(RailPeer const& other) const;
  void check_terms(Handshake const& end, RailPeer const& other) const;
  Step prove(Handshake& end);
  wire::RailVerdict ask(Handshake const& end);

  RailConfig const& config_;
  std::unique_ptr<worker::RailProver> prover_;
  LocalPeers& local_peers_;
  Patience const& patience_;
};

Handshake::State Handshake::read() {
  char* const to = proving ? proof.data() : reinterpret_cast<char*>(&theirs);
  std::size_t const size = proving ? proof.size() : sizeof theirs;
  for (;;) {
    ssize_t const n = ::recv(fd.get(), to + got, size - got, MSG_DONTWAIT);
    if (n > 0) {
      got += static_cast<std::size_t>(n);
      if (got == size) {
        return State::complete;
      }
    } else if (n < 0 && errno == EAGAIN) {
      return State::incomplete;
    } else if (n == 0 || errno != EINTR) {
      return State::gone;
    }
  }
}

void Handshake::await_proof() {
  proving = true;
  got = 0;
}

/// The buffer of a new socket is large enough for a greeting and a proof.
bool Handshake::send(std::string const& bytes) const {
  return ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

bool Authenticator::greet(Handshake& end, int node, wire::RailChannel channel) const {
  end.mine = {.channel = channel,
              .from = me().rank,
              .to = peer(node).rank,
              .generation = config_.generation,
              .nonce = config_.nonce};
  if (prover_ != nullptr) {
    bool const calls = end.side == RailSide::caller;
    end.mine.proves = 1;
    end.mine.caller = calls ? os::own_end(end.fd.get()) : os::other_end(end.fd.get());
    end.mine.called = calls ? os::other_end(end.fd.get()) : os::own_end(end.fd.get());
    fill_randomly(end.mine.fresh.data(), end.mine.fresh.size());
  }
  return end.send({reinterpret_cast<char const*>(&end.mine), sizeof end.mine});
}

Authenticator::Step Authenticator::on_answer(Handshake& end, int node, wire::RailChannel channel) {
  wire::RailGreeting const& theirs = end.theirs;
  if (theirs.magic != wire::kRailMagic || theirs.nonce != config_.nonce) {
    end.why = "another program listens there";
    return Step::refused;
  }
  check_terms(end, peer(node));
  if (theirs.from != peer(node).rank || theirs.to != me().rank || theirs.generation != config_.generation ||
      theirs.channel != channel) {
    end.why = "another rank listens there";
    return Step::refused;
  }
  return prover_ == nullptr ? Step::done : prove(end);
}

Authenticator::Step Authenticator::on_call(Handshake& end, int node) {
  if (!end.proving && !greet(end, node, end.theirs.channel)) {
    end.why = "its connection broke at once";
    return Step::refused;
  }
  check_terms(end, peer(node));
  return prover_ == nullptr ? Step::done : prove(end);
}

/// Checks version and proof as the peer states them. With a prover, nothing unproven may make this fail.
void Authenticator::check_terms(Handshake const& end, RailPeer const& other) const {
  if (prover_ == nullptr && end.theirs.version != wire::kRailVersion) {
    versions_differ(other, end.theirs.version);
  }
  if (prover_ == nullptr && end.theirs.proves != 0) {
    proofs_differ(other);
  }
}

/// Takes the next step after a greeting or a proof has been read.
Authenticator::Step Authenticator::prove(Handshake& end) {
  bool const calls = end.side == RailSide::caller;
  bool const last = end.proving;
  end.why = end.theirs.version != wire::kRailVersion || end.theirs.proves != 1
                ? "it does not prove that it belongs to this job"
                : "";
  if (end.why.empty() && (calls || last)) {  // the rank that was called waits for the caller's proof first
    auto const verdict = ask(end);
    bool const sends = calls != last;
    if (verdict.what == wire::RailVerdict::What::relayed) {
      end.why = calls ? wire::relay_text(end.mine, end.theirs) : wire::relay_text(end.theirs, end.mine);
    } else if (verdict.what == wire::RailVerdict::What::wrong) {
      end.why = "it does not know this job's key";
    } else if (sends && !end.send(verdict.own)) {
      end.why = "the connection broke at once";
    }
  }
  if (!end.why.empty()) {
    return Step::refused;
  }
  end.await_proof();
  return last ? Step::done : Step::more;
}

wire::RailVerdict Authenticator::ask(Handshake const& end) {
  bool const calls = end.side == RailSide::caller;
  wire::RailClaim const claim{end.side, calls ? end.mine : end.theirs, calls ? end.theirs : end.mine,
                              end.proving ? std::string(end.proof.data(), end.proof.size()) : std::string()};
  return prover_->ask(claim, [this] {
    local_peers_.check(patience_);
    if (Clock::now() >= patience_.until + local_peers_.stopped()) {
      throw Failure(fail(Errc::timeout, rank_name(me().rank, me().host) +
                                            " got no answer from its agent, which is to prove it to ranks of other "
                                            "nodes"));
    }
  });
}

void Authenticator::versions_differ(RailPeer const& other, std::uint32_t theirs) const {
  throw Failure(fail(Errc::usage, rank_name(other.rank, other.host) + " speaks version " + std::to_string(theirs) +
                                      " of the protocol between nodes, " + rank_name(me().rank, me().host) +
                                      " version " + std::to_string(wire::kRailVersion) +
                                      ": build all ranks with the same version of cxxrun"));
}

void Authenticator::proofs_differ(RailPeer const& other) const {
  throw Failure(fail(Errc::usage, rank_name(other.rank, other.host) + " asks for a proof that " +
                                      rank_name(me().rank, me().host) +
                                      " belongs to the job, and no agent proves that: start all ranks with cxxrun, and "
                                      "let all of them, or none, reach the socket that CXXRUN_PROVER names"));
}

// ---- the connections of a rail

constexpr int kMeetSlice = 1;         // ms between two checks of the local peers
constexpr Millis kGuestTime{5000};    // time for a caller to identify itself
constexpr std::size_t kGuests = 512;  // at the same time; more than a rail has ranks, since each may retry
constexpr int kAcceptsPerTurn = 64;   // many callers must not delay those already connected
constexpr Millis kFirstPause{5};
constexpr Millis kLongestPause{500};

/// A connection from another process.
struct Guest : Handshake {
  TimePoint until{};
};

/// A connection that this rank makes.
struct Dial : Handshake {
  int node = 0;
  RailChannel channel = RailChannel::data;
  bool connected = false;  // according to the kernel
  bool done = false;
  TimePoint next{};
  Millis pause = kFirstPause;
  std::string reason = "not tried yet";
};

os::UniqueFd& socket_of(Link& link, RailChannel channel) {
  return channel == RailChannel::data ? link.data : link.control;
}

/// Whether the other end has closed the connection; it may have called again.
bool has_ended(os::UniqueFd const& fd) {
  char byte = 0;
  ssize_t const n = ::recv(fd.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

class RailConnector {
 public:
  RailConnector(RailConfig const& config, RailListener listener, LocalPeers& local_peers, Patience const& patience,
                Links& links)
      : config_(config),
        listener_(std::move(listener.fd)),
        authenticator_(config, std::move(listener.prover), local_peers, patience),
        local_peers_(local_peers),
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

  /// Until all links are connected: starts the connections that are due, drops callers that are too slow, and handles
  /// events.
  void run() {
    for (auto missing = first_missing(); missing != links_.end(); missing = first_missing()) {
      local_peers_.held_up_by(peer(missing->node).rank);
      TimePoint const now = Clock::now();
      local_peers_.check(patience_);
      bool const at_once = config_.are_coming && local_peers_.gives_up_early(patience_);
      if (at_once || now >= patience_.until + local_peers_.stopped()) {
        give_up(peer(missing->node));
      }
      for (Dial& dial : dials_) {
        if (!dial.done && !dial.fd && now >= dial.next) {
          start(dial);
        }
      }
      while (!guests_.empty() && guests_.front().until <= now) {
        guests_.pop_front();  // all have the same time limit, so the first is the oldest
      }
      wait();
    }
    local_peers_.held_up_by(-1);
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
                          (refused_of(link.node).empty() ? "" : "; a caller was refused: ") + refused_of(link.node));
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
      case Handshake::State::incomplete: return;
      case Handshake::State::gone:
        return retry(
            dial, dial.proving ? "it did not accept this rank's proof" : "it closed the connection without an answer");
      case Handshake::State::complete: break;
    }
    switch (authenticator_.on_answer(dial, dial.node, dial.channel)) {
      case Authenticator::Step::more: return;
      case Authenticator::Step::refused: refused_of(dial.node) = dial.why; return retry(dial, dial.why);
      case Authenticator::Step::done: break;
    }
    dial.done = true;
    socket_of(links_[static_cast<std::size_t>(dial.node)], dial.channel) = std::move(dial.fd);
  }

  void greet(Dial& dial) {
    if (int const error = os::connect_error(dial.fd.get()); error != 0) {
      return retry(dial, fail(Errc::closed, "cannot connect", error).message());
    }
    prepare(dial.fd.get(), dial.channel);
    if (!authenticator_.greet(dial, dial.node, dial.channel)) {
      return retry(dial, "the connection broke at once");
    }
    dial.connected = true;
    dial.reason = "it does not answer";
  }

  void accept_all() {
    for (int n = 0; n < kAcceptsPerTurn; ++n) {
      os::UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!fd) {
        return;  // none, or it has gone already
      }
      if (guests_.size() == kGuests) {
        guests_.pop_front();
      }
      guests_.push_back({{.fd = std::move(fd)}, Clock::now() + kGuestTime});
    }
  }

  /// Whether the guest is finished, successfully or not.
  bool receive(Guest& guest) {
    auto const state = guest.read();
    if (state != Handshake::State::complete) {
      return state == Handshake::State::gone;
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
      return true;  // the first connection stays, whatever a later caller says
    }
    switch (authenticator_.on_call(guest, node)) {
      case Authenticator::Step::more: return false;
      case Authenticator::Step::refused: refused_of(node) = guest.why; return true;
      case Authenticator::Step::done: break;
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
        read_farewell(links_[i], config_.generation, patience_);
      }
      // A connected peer may fail while others are awaited. It may also leave, if it has finished.
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
  Authenticator authenticator_;
  LocalPeers& local_peers_;
  Patience const& patience_;
  Links& links_;
  std::vector<Dial> dials_;
  std::deque<Guest> guests_;
  std::vector<std::string> refused_;  ///< by node: why the last caller that claimed its rank was refused
  std::vector<pollfd> watched_;
};

}  // namespace

void connect_rails(RailConfig const& config, RailListener listener, LocalPeers& local_peers, Patience const& patience,
                   Links& links) {
  RailConnector(config, std::move(listener), local_peers, patience, links).run();
}

}  // namespace cxxrun::host
