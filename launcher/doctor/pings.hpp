// Calls between the nodes of a step: who answers, and how a call goes. Shell.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cxxrun/error.hpp"
#include "launcher/doctor/step_findings.hpp"
#include "src/os/bounded_thread.hpp"
#include "src/os/fd.hpp"

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

/// Calls by name, as workers do, and asks the clock over there some times. Takes 3 s at most.
[[nodiscard]] Call call_node(std::uint32_t index, std::string const& host, std::uint16_t port);

}  // namespace cxxrun::launcher::doctor
