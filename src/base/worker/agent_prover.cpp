#include "src/base/worker/agent_prover.hpp"

#include <array>
#include <cerrno>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

#include "cxxrun/failure.hpp"
#include "src/base/os/descriptor_packet.hpp"
#include "src/base/worker/agent_packets.hpp"
#include "src/base/worker/segment_socket.hpp"

namespace cxxrun::worker {
namespace {

constexpr int kConnectMs = 10'000;  // a place in the queue of an agent that is busy with starting workers
constexpr int kSliceMs = 1;
constexpr std::size_t kAnswerBytes = 1024;  // more than a verdict or a refusal

[[noreturn]] void say(Errc code, std::string const& why) {
  throw Failure(fail(code, "no proof for the ranks of other nodes that this one belongs to the job: " + why));
}

}  // namespace

std::unique_ptr<AgentProver> AgentProver::find(std::string const& name) {
  bool const there = !name.empty() && host::connect_for_segment(name, kConnectMs).has_value();
  return there ? std::unique_ptr<AgentProver>(new AgentProver(name)) : nullptr;
}

// An agent to which more call at once than it hears closes the oldest connections: then it is asked again.
wire::RailVerdict AgentProver::ask(wire::RailClaim const& claim, std::function<void()> const& meanwhile) {
  std::string const question = encode(FromWorker(claim));
  std::array<char, kAnswerBytes> bytes{};
  bool asked = false;
  for (;;) {
    meanwhile();
    if (!connection_) {
      auto connection = host::connect_for_segment(name_, kConnectMs);
      if (!connection) {
        say(connection.error().code, "the agent is gone: " + connection.error().message());
      }
      connection_ = *std::move(connection);
      asked = false;
    }
    if (!asked) {
      asked = os::send_packet(connection_.get(), question) == static_cast<ssize_t>(question.size());
    }
    pollfd entry{connection_.get(), POLLIN, 0};
    ::poll(&entry, 1, kSliceMs);
    ssize_t const n = ::recv(connection_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n <= 0) {
      if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        connection_.reset();
      }
      continue;
    }
    auto answer = decode_from_agent({bytes.data(), static_cast<std::size_t>(n)});
    if (auto* const verdict = answer ? std::get_if<wire::RailVerdict>(&*answer) : nullptr) {
      return std::move(*verdict);
    }
    auto const* const no = answer ? std::get_if<No>(&*answer) : nullptr;
    say(no != nullptr ? Errc::refused : Errc::protocol,
        no != nullptr ? no->why : "what the agent says is not of this version of cxxrun");
  }
}

}  // namespace cxxrun::worker
