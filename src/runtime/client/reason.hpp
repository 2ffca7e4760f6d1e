// Reason: what calls failed with, kept to be thrown again. Shell.
//
// Threads: any.
#pragma once

#include <exception>
#include <string>
#include <variant>

#include "cxxrun/failure.hpp"

namespace cxxrun::client {

class Reason {
 public:
  explicit Reason(std::exception_ptr const& why) noexcept;

  /// Throws a copy: threads that throw at the same time share nothing.
  [[noreturn]] void raise() const;
  [[nodiscard]] std::string sentence() const;
  /// Whether it is a PeerFailure which names this rank.
  [[nodiscard]] bool blames(int rank) const noexcept;

 private:
  std::variant<std::exception_ptr, Failure, PeerFailure> why_;
};

}  // namespace cxxrun::client
