// Greeted: a connection between two ranks, until both have said who they are and, where they prove it, have proven it.
// Introducer: this rank's part in that. Shell.
//
// Both greet, the caller first. With a prover the caller then proves itself, and after it who was called: a stranger
// who calls hears no proof. Nothing that an end says which has not proven itself throws then: the connection ends, and
// who is missing is named when the time is over.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "src/base/os/fd.hpp"
#include "src/runtime/cpu/common/mates.hpp"
#include "src/runtime/cpu/rails/rail_socket.hpp"

namespace cxxrun::host {

struct Greeted {
  os::UniqueFd fd;
  wire::RailSide side = wire::RailSide::called;  ///< this rank's
  wire::RailGreeting mine{};
  wire::RailGreeting theirs{};
  std::array<char, wire::kRailProof> proof{};  ///< the other side's
  std::size_t got = 0;                         ///< of the greeting, or behind it of the proof
  bool proving = false;                        ///< both have greeted; the proof is what comes next
  std::string why{};                           ///< it is refused

  enum class State { incomplete, complete, gone };
  /// Of what comes next.
  State read();
  /// From now on the proof is read.
  void await_proof();
  [[nodiscard]] bool send(std::string const& bytes) const;
};

class Introducer {
 public:
  /// `prover` may be null: who knows the nonce is taken for whom it says it is. The others outlive this object.
  Introducer(RailConfig const& config, std::unique_ptr<RailProver> prover, Mates& mates, Patience const& patience)
      : config_(config), prover_(std::move(prover)), mates_(mates), patience_(patience) {}

  /// False: it broke at once.
  [[nodiscard]] bool greet(Greeted& end, int node, wire::RailChannel channel) const;

  /// more: something else is to be read; refused: `end.why` says why; done: it is that rank.
  enum class Step { more, refused, done };
  /// What was to be read has come from whoever was called as the rank of `node`. Throws Failure, and what the mates'
  /// trouble throws.
  Step hear_answer(Greeted& end, int node, wire::RailChannel channel);
  /// And from somebody who has called and says to be the rank of `node`.
  Step hear_call(Greeted& end, int node);

 private:
  [[nodiscard]] RailPeer const& peer(int node) const { return config_.peers[static_cast<std::size_t>(node)]; }
  [[nodiscard]] RailPeer const& me() const { return peer(config_.node); }
  [[noreturn]] void versions_differ(RailPeer const& other, std::uint32_t theirs) const;
  [[noreturn]] void proofs_differ(RailPeer const& other) const;
  void check_terms(Greeted const& end, RailPeer const& other) const;
  Step prove(Greeted& end);
  wire::RailVerdict ask(Greeted const& end);

  RailConfig const& config_;
  std::unique_ptr<RailProver> prover_;
  Mates& mates_;
  Patience const& patience_;
};

}  // namespace cxxrun::host
