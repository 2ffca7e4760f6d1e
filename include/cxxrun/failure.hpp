// Failure and PeerFailure: the exceptions of the gradient runtime.
//
// WorkerEnv and Store return Result. Everything above them (Communicator, GradientSynchronizer, Checkpoint) throws:
// a collective is called deep inside a training step, where the caller cannot do anything useful about a failure
// (docs/decisions/0007-the-runtime-throws.md). Messages name the rank and the host where these matter: a full disk has
// only a host; a bad argument of an ElasticSampler and a damaged file have neither.
//
// PeerFailure: this process is healthy, another one is not. Continue from the last checkpoint in a new generation.
// Failure: a person has to change something. After either one from a collective call the Communicator is unusable:
// every later collective call throws the same exception at once. A call that is rejected before it involves other ranks
// (for example host() with a rank that does not exist) leaves the Communicator as it was.
#pragma once

#include "cxxrun/version.hpp"

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "cxxrun/error.hpp"

namespace cxxrun {

/// An Error as an exception. what() is error().message().
class Failure : public std::runtime_error {
 public:
  explicit Failure(Error error) : std::runtime_error(error.message()), error_(std::move(error)) {}
  [[nodiscard]] Error const& error() const noexcept { return error_; }

 private:
  Error error_;
};

/// A peer died, left, or did not arrive in time. Every blocking call throws it, in every surviving rank.
class PeerFailure : public std::runtime_error {
 public:
  enum class Why : std::uint8_t {
    died,     ///< the process ended, by a signal or by itself, without leaving the Communicator
    left,     ///< it destroyed its Communicator, or its own call was refused, while others were still calling
    timeout,  ///< it is alive but did not arrive within op_timeout
    lost,     ///< its connection broke or went silent: a problem of the host or the network
    stopped,  ///< the launcher ended the generation; rank() is -1
  };
  /// `after`: time from the start of the call that noticed the failure.
  PeerFailure(Why why, int rank, std::string host, std::uint64_t generation, std::chrono::microseconds after);

  [[nodiscard]] Why why() const noexcept { return why_; }
  /// The rank that failed. All survivors name the same rank, with one exception: in a timeout of a call that nodes
  /// began more than a second apart, a remote node may name the rank that it waited for itself
  /// (docs/design/host_backend.md).
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] std::string const& host() const noexcept { return host_; }
  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }
  [[nodiscard]] std::chrono::microseconds after() const noexcept { return after_; }

 private:
  Why why_;
  int rank_;
  std::string host_;
  std::uint64_t generation_;
  std::chrono::microseconds after_;
};

/// Returns the value of a Result, or throws its Error as a Failure: `auto env =
/// or_throw(WorkerEnv::from_environment())`.
template <class T>
T or_throw(Result<T> result) {
  if (!result) {
    throw Failure(result.error());
  }
  return std::move(result).value();
}
inline void or_throw(Result<void> const& result) {
  if (!result) {
    throw Failure(result.error());
  }
}

}  // namespace cxxrun
