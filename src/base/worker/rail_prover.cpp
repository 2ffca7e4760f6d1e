#include "src/base/worker/rail_prover.hpp"

#include <array>
#include <cerrno>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

#include "cxxrun/failure.hpp"
#include "src/base/os/local_socket.hpp"
#include "src/base/worker/agent_packets.hpp"

namespace cxxrun::worker {
namespace {

constexpr int kConnectMs = 10'000;  // an agent that is starting workers accepts late
constexpr int kSliceMs = 1;
constexpr std::size_t kAnswerBytes = 1024;  // more than a verdict or a refusal

[[noreturn]] void throw_no_proof(Errc code, std::string const& why) {
  throw Failure(fail(code, "no proof for the ranks of other nodes that this one belongs to the job: " + why));
}

}  // namespace

std::unique_ptr<AgentProver> AgentProver::find(std::string const& name) {
  bool const there = !name.empty() && os::connect_local(name, kConnectMs).has_value();
  return there ? std::unique_ptr<AgentProver>(new AgentProver(name)) : nullptr;
}

// An agent with too many callers closes the oldest connections. So after a lost connection, ask again on a new one.
wire::RailVerdict AgentProver::ask(wire::RailClaim const& claim, std::function<void()> const& meanwhile) {
  std::string const question = encode(FromWorker(claim));
  std::array<char, kAnswerBytes> bytes{};
  bool asked = false;
  for (;;) {
    meanwhile();
    if (!connection_) {
      auto connection = os::connect_local(name_, kConnectMs);
      if (!connection) {
        throw_no_proof(connection.error().code, "the agent is gone: " + connection.error().message());
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
    throw_no_proof(no != nullptr ? Errc::refused : Errc::protocol,
                   no != nullptr ? no->why : "the agent's answer is not from this version of cxxrun");
  }
}

}  // namespace cxxrun::worker
