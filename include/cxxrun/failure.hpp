// Failure and PeerFailure: what the gradient runtime throws.
//
// WorkerEnv and Store return Result. Everything above them (Communicator, GradientSynchronizer, Checkpoint) throws:
// a collective is called deep inside a training step, and there is nothing sensible to do right there
// (docs/decisions/0007-the-runtime-throws.md). Every exception names the thing, and the rank and host where they
// matter: a full disk has only a host, and the arguments of an ElasticSampler or a file's contents have neither.
//
// PeerFailure means that this process is healthy and another one is not: load the last checkpoint in a new
// generation. Failure means that something has to be changed by a person. After either from a collective call, the
// Communicator is finished: every later collective call on it throws the same again at once. What is refused before
// others have to do with it (a rank that there is not, in host() for example) leaves it as it was.
#pragma once

#include "cxxrun/version.hpp"

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "cxxrun/error.hpp"

namespace cxxrun {

/// An Error, thrown. what() is error().message().
class Failure : public std::runtime_error {
 public:
  explicit Failure(Error error) : std::runtime_error(error.message()), error_(std::move(error)) {}
  [[nodiscard]] Error const& error() const noexcept { return error_; }

 private:
  Error error_;
};

/// A peer died, left, or did not come in time. Thrown by every blocking call, in every survivor.
class PeerFailure : public std::runtime_error {
 public:
  enum class Why : std::uint8_t {
    died,     ///< its process ended, by a signal or by itself, without leaving the Communicator
    left,     ///< it destroyed its Communicator, or its own call was refused, while others still called
    timeout,  ///< it is there and did not arrive within op_timeout
    lost,     ///< its connection broke or went silent: host or network
    stopped,  ///< the launcher ended the generation, for a reason of its own: rank() is -1
  };
  /// `after`: from the start of the call that noticed.
  PeerFailure(Why why, int rank, std::string host, std::uint64_t generation, std::chrono::microseconds after);

  [[nodiscard]] Why why() const noexcept { return why_; }
  /// Whose failure it is. The same in every survivor, except in a timeout of a call that nodes began more than a
  /// second apart: a farther node may name the rank that it waited for itself (docs/design/host_backend.md).
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

/// The value of a Result, or its Error thrown as a Failure: `auto env = or_throw(WorkerEnv::from_environment())`.
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
