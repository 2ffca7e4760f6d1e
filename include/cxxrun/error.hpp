// Errors as values: WorkerEnv, Store and the launcher return Result<T> where they can fail.
//
// The caller tests a Result before it reads the value. The gradient runtime (Communicator and the classes built on it,
// Arena, Checkpoint, ElasticSampler) throws the same Error inside a Failure instead (failure.hpp,
// docs/decisions/0007-the-runtime-throws.md). Result only has members that std::expected (C++23) has under the same
// names, so that it can become an alias when the oldest supported compiler has std::expected.
//
// Thread-safety: plain values; different objects may be used by different threads.
#pragma once

#include "cxxrun/version.hpp"

#include <string>
#include <utility>
#include <variant>

namespace cxxrun {

/// The kind of error; decides whether a retry can help.
enum class Errc {
  usage,        ///< invalid arguments or options
  environment,  ///< environment variables are missing, malformed or contradict each other
  not_found,    ///< a file, program, host or key does not exist
  permission,   ///< the operating system denies access
  in_use,       ///< another process has the port or file
  refused,      ///< a peer answered with a refusal
  timeout,      ///< the deadline passed; the state of the peer is unknown
  closed,       ///< the peer is gone (end of file or reset)
  protocol,     ///< the peer violated the protocol
  io,           ///< a system call failed; see os_errno
};

/// One error, worded for the person who has to act on it.
struct Error {
  Errc code = Errc::io;
  std::string context;  ///< what was attempted, on what, and the remedy if there is one
  int os_errno = 0;     ///< errno of the failed system call, or 0

  /// One line for a person: the context, followed by the text of os_errno if it is not 0.
  [[nodiscard]] std::string message() const;
  bool operator==(Error const&) const = default;
};

/// Makes an Error.
[[nodiscard]] inline Error fail(Errc code, std::string context, int os_errno = 0) {
  return Error{code, std::move(context), os_errno};
}

/// A value, or the Error that explains why there is none. Test first: reading the missing side is undefined, as with
/// std::expected.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }
  [[nodiscard]] T& value() & { return *std::get_if<0>(&state_); }
  [[nodiscard]] T const& value() const& { return *std::get_if<0>(&state_); }
  [[nodiscard]] T&& value() && { return std::move(*std::get_if<0>(&state_)); }
  [[nodiscard]] Error const& error() const& { return *std::get_if<1>(&state_); }
  T& operator*() & { return value(); }
  T const& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  T const* operator->() const { return &value(); }

 private:
  std::variant<T, Error> state_;
};

/// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool has_value() const noexcept { return ok_; }
  explicit operator bool() const noexcept { return ok_; }
  [[nodiscard]] Error const& error() const& { return error_; }

 private:
  Error error_;
  bool ok_ = true;
};

}  // namespace cxxrun
