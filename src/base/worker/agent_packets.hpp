// The messages between a worker and its agent, as values and as bytes. Pure.
//
// They travel over the local socket (os/local_socket.hpp) that the agent names in CXXRUN_AGENT. The socket stays the
// same in all generations. The worker connects, sends Register, and keeps the connection as long as it lives. The agent
// answers with Welcome and the descriptor of the worker's ControlPage, or with No.
//
//   worker                                agent
//   Register ───────────────────────────▶
//            ◀───────────────────────────  Welcome + memfd                 (or No: the reason, and the end)
//                                          … page.over = 3, bell           generation 3 is over
//   Parked{3} ──────────────────────────▶                                  "I hold nothing of it and wait"
//            ◀───────────────────────────  Resume{4, environment}          the next generation, with its variables
//
// A process in the session of a worker may ask for proofs on further connections. It need not have registered:
//
//   RailClaim ──────────────────────────▶
//            ◀───────────────────────────  RailVerdict                     (or No: the reason, and the end)
//
// Any process of the user may ask about the job, one question on each connection (cxxrunctl does):
//
//   Question ───────────────────────────▶
//            ◀───────────────────────────  Answer{more} …                  (the last one: the end)
//
// Parked may come before the agent knows that the generation is over: the worker saw its peer die first.
// Every packet begins with the magic; any other packet ends the connection. No packet is larger than kMostBytes: the
// sender drops the last variables of an environment that is longer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "src/base/wire/rail_protocol.hpp"

namespace cxxrun::worker {

constexpr std::size_t kMostBytes = std::size_t{64} << 10;

/// Worker to agent, once.
struct Register {
  std::uint64_t generation = 0;  ///< CXXRUN_GENERATION
  std::uint32_t local_rank = 0;
  bool survives = false;  ///< it can wait for another generation; otherwise it only has a page
  bool shrinks = false;   ///< it survives, and others need not wait until its node has restarted a missing worker
  bool operator==(Register const&) const = default;
};
/// Worker to agent: it has given up its Communicator of this generation and waits for Resume.
struct Parked {
  std::uint64_t generation = 0;
  std::string why;  ///< the PeerFailure's sentence, for the log; at most 500 bytes
  bool operator==(Parked const&) const = default;
};
/// To the agent, from a process that is no worker: launcher/live/question.hpp. At most kMostAsked bytes.
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
/// Agent to worker: take part in this generation. `environment` has the variables ("K=V") that WorkerEnv, the runtime
/// and programs written for Slurm read; the process's own environ stays as it is.
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
/// Nothing when the bytes are not such a packet.
[[nodiscard]] std::optional<FromWorker> decode_from_worker(std::string_view bytes);
[[nodiscard]] std::optional<FromAgent> decode_from_agent(std::string_view bytes);

}  // namespace cxxrun::worker
