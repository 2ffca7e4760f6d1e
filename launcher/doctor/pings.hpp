// Calls between the nodes of a step: who answers, and how a call goes. Shell.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cxxrun/error.hpp"
#include "launcher/doctor/step_findings.hpp"
#include "src/os/bounded_thread.hpp"
#include "src/os/fd.hpp"
#include "src/os/local_address.hpp"

namespace cxxrun::launcher::doctor {

/// Answers calls on a thread, one after the other, until it is destroyed.
class Answerer {
 public:
  /// Listens on all addresses. Errors: io.
  [[nodiscard]] static Result<std::unique_ptr<Answerer>> start();
  ~Answerer();
  Answerer(Answerer const&) = delete;
  Answerer& operator=(Answerer const&) = delete;
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  struct Shared {
    os::UniqueFd listener;
    os::UniqueFd ended;  ///< an eventfd
  };
  Answerer() = default;
  std::shared_ptr<Shared> shared_;
  std::unique_ptr<os::BoundedThread> thread_;
  std::uint16_t port_ = 0;
};

/// How long a name is looked up: a name server may be dead, and the next one answer after 5 s or more.
inline constexpr Millis kNaming{10'000};

/// A node that is called by name, as workers do. The name is looked up on a thread, beside those of other nodes.
class Callee {
 public:
  Callee(std::uint32_t index, std::string const& host, std::uint16_t port)
      : index_(index), name_(kNaming, host, port, SOCK_STREAM) {}
  /// Whether nobody has to wait for its name any longer.
  [[nodiscard]] bool ready() { return name_.ready(); }
  /// Asks the clock over there some times: 3 s at most, once it is ready. To be called once.
  [[nodiscard]] Call call();

 private:
  std::uint32_t index_;
  os::LookUp name_;
};

}  // namespace cxxrun::launcher::doctor
