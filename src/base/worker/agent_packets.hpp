// What a worker and its agent say to each other, as values and as bytes. Pure.
//
// On the unix socket (SOCK_SEQPACKET, processes of the same user only) that the agent names in CXXRUN_AGENT;
// it stays the same from generation to generation. The worker connects, says Register, and keeps the connection as
// long as it lives. The agent answers with Welcome and the descriptor of its ControlPage, or with No.
//
//   worker                                agent
//   Register ───────────────────────────▶
//            ◀───────────────────────────  Welcome + memfd                 (or No: the reason, and the end)
//                                          … page.over = 3, bell           generation 3 is over
//   Parked{3} ──────────────────────────▶                                  "I hold nothing of it and wait"
//            ◀───────────────────────────  Resume{4, environment}          the next generation, with its variables
//
// A process in the session of a worker, which need not have registered, may ask for proofs on further connections:
//
//   RailClaim ──────────────────────────▶
//            ◀───────────────────────────  RailVerdict                     (or No: the reason, and the end)
//
// Any process of the user may ask about the job (cxxrunctl), once on a connection:
//
//   Question ───────────────────────────▶
//            ◀───────────────────────────  Answer{more} …                  (the last one: the end)
//
// Parked may come before the agent knows that the generation is over: the worker saw its peer die first.
// Every packet begins with the magic; one that does not is the end of the connection. Nothing is larger than
// kMostBytes; longer environments are cut by whoever sends, from the end, and never inside a variable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "src/base/wire/rail_proof.hpp"

namespace cxxrun::worker {

constexpr std::size_t kMostBytes = std::size_t{64} << 10;

/// Worker to agent, once.
struct Register {
  std::uint64_t generation = 0;  ///< CXXRUN_GENERATION
  std::uint32_t local_rank = 0;
  bool survives = false;  ///< it can wait for another generation; else it only has a page
  bool shrinks = false;   ///< and the job is not to wait for it: others go on while its node starts what is missing
  bool operator==(Register const&) const = default;
};
/// Worker to agent: it has given up its Communicator of this generation and waits for Resume.
struct Parked {
  std::uint64_t generation = 0;
  std::string why;  ///< the PeerFailure's sentence, for the log; at most 500 bytes
  bool operator==(Parked const&) const = default;
};
/// To the agent, from who is no worker: launcher/live/question.hpp. At most kMostAsked bytes.
struct Question {
  std::string text;
  bool operator==(Question const&) const = default;
};
constexpr std::size_t kMostAsked = 512;
using FromWorker = std::variant<Register, Parked, wire::RailClaim, Question>;

/// Agent to worker, with the descriptor.
struct Welcome {
  bool operator==(Welcome const&) const = default;
};
struct No {
  std::string why;
  bool operator==(No const&) const = default;
};
/// Agent to worker: take part in this generation. The variables that WorkerEnv, the runtime and Slurm-minded programs
/// read, "K=V"; the process's own environ is not changed.
struct Resume {
  std::uint64_t generation = 0;
  std::vector<std::string> environment;
  bool operator==(Resume const&) const = default;
};
/// A part of the answer to a Question. At most kMostAnswered bytes.
struct Answer {
  bool more = false;  ///< another part follows
  std::string text;
  bool operator==(Answer const&) const = default;
};
constexpr std::size_t kMostAnswered = std::size_t{60} << 10;
using FromAgent = std::variant<Welcome, No, Resume, wire::RailVerdict, Answer>;

[[nodiscard]] std::string encode(FromWorker const& packet);
[[nodiscard]] std::string encode(FromAgent const& packet);
/// Nothing when these are no such bytes.
[[nodiscard]] std::optional<FromWorker> decode_from_worker(std::string_view bytes);
[[nodiscard]] std::optional<FromAgent> decode_from_agent(std::string_view bytes);

}  // namespace cxxrun::worker
