#include "src/runtime/cpu/rails/rail_greeting.hpp"

#include <cerrno>
#include <sys/socket.h>

#include "cxxrun/failure.hpp"
#include "src/base/core/rank_name.hpp"
#include "src/base/os/local_address.hpp"
#include "src/base/os/random.hpp"

namespace cxxrun::host {

using wire::RailSide;

Greeted::State Greeted::read() {
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

void Greeted::await_proof() {
  proving = true;
  got = 0;
}

/// A fresh socket's buffer takes a greeting and a proof whole.
bool Greeted::send(std::string const& bytes) const {
  return ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

bool Introducer::greet(Greeted& end, int node, wire::RailChannel channel) const {
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

Introducer::Step Introducer::hear_answer(Greeted& end, int node, wire::RailChannel channel) {
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

Introducer::Step Introducer::hear_call(Greeted& end, int node) {
  if (!end.proving && !greet(end, node, end.theirs.channel)) {
    end.why = "its connection broke at once";
    return Step::refused;
  }
  check_terms(end, peer(node));
  return prover_ == nullptr ? Step::done : prove(end);
}

/// By its words alone: with a prover nobody ends anything by them.
void Introducer::check_terms(Greeted const& end, RailPeer const& other) const {
  if (prover_ == nullptr && end.theirs.version != wire::kRailVersion) {
    versions_differ(other, end.theirs.version);
  }
  if (prover_ == nullptr && end.theirs.proves != 0) {
    proofs_differ(other);
  }
}

/// The next step, when what was to be read has come.
Introducer::Step Introducer::prove(Greeted& end) {
  bool const calls = end.side == RailSide::caller;
  bool const last = end.proving;
  end.why = end.theirs.version != wire::kRailVersion || end.theirs.proves != 1
                ? "it does not prove that it belongs to this job"
                : "";
  if (end.why.empty() && (calls || last)) {  // who was called waits for the caller's proof first
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

wire::RailVerdict Introducer::ask(Greeted const& end) {
  bool const calls = end.side == RailSide::caller;
  wire::RailClaim const claim{end.side, calls ? end.mine : end.theirs, calls ? end.theirs : end.mine,
                              end.proving ? std::string(end.proof.data(), end.proof.size()) : std::string()};
  return prover_->ask(claim, [this] {
    mates_.check(patience_);
    if (Clock::now() >= patience_.until + mates_.stopped()) {
      throw Failure(fail(Errc::timeout, rank_name(me().rank, me().host) +
                                            " has asked its agent to prove it to ranks of "
                                            "other nodes, and hears nothing"));
    }
  });
}

void Introducer::versions_differ(RailPeer const& other, std::uint32_t theirs) const {
  throw Failure(fail(Errc::usage, rank_name(other.rank, other.host) + " speaks version " + std::to_string(theirs) +
                                      " of the protocol between nodes, " + rank_name(me().rank, me().host) +
                                      " version " + std::to_string(wire::kRailVersion) +
                                      ": build all ranks with the same version of cxxrun"));
}

void Introducer::proofs_differ(RailPeer const& other) const {
  throw Failure(fail(Errc::usage, rank_name(other.rank, other.host) + " asks for a proof that " +
                                      rank_name(me().rank, me().host) +
                                      " belongs to the job, and no agent proves that: start all ranks with cxxrun, and "
                                      "let all of them, or none, reach the socket that CXXRUN_PROVER names"));
}

}  // namespace cxxrun::host
