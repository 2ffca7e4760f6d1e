// Errors as values: what WorkerEnv, Store and the launcher return when they can fail.
//
// Such a function returns Result<T>; the caller looks before it takes. The gradient runtime (Communicator and what is
// built on it, Arena, Checkpoint, ElasticSampler) throws instead: the same Error, in a Failure (failure.hpp,
// docs/decisions/0007-the-runtime-throws.md). Result offers only members that std::expected (C++23) has under the same
// names, so that the alias can be swapped when the oldest supported compiler has it.
//
// Thread-safety: plain values; distinct objects may be used from distinct threads.
#pragma once

#include "cxxrun/version.hpp"

#include <string>
#include <utility>
#include <variant>

namespace cxxrun {

/// What kind of thing went wrong; decides whether trying again can help.
enum class Errc {
  usage,        ///< the caller's arguments or options cannot be meant as given
  environment,  ///< environment variables are missing, malformed or contradict each other
  not_found,    ///< a file, program, host or key does not exist
  permission,   ///< the operating system forbids it
  in_use,       ///< a port or file belongs to somebody else
  refused,      ///< a peer answered and said no
  timeout,      ///< the deadline passed; the state of the peer is unknown
  closed,       ///< the peer is gone (end of file or reset)
  protocol,     ///< the peer sent something that is not the protocol
  io,           ///< the operating system failed a read, write or call; see os_errno
};

/// One failure, in the words of whoever has to act on it.
struct Error {
  Errc code = Errc::io;
  std::string context;  ///< what was attempted, on what, and the remedy when there is one
  int os_errno = 0;     ///< errno of the system call behind it, 0 when there was none

  /// One line for a human: the context, followed by the text of os_errno when there is one.
  [[nodiscard]] std::string message() const;
  bool operator==(Error const&) const = default;
};

/// Makes an Error; the short form used at the place of failure.
[[nodiscard]] inline Error fail(Errc code, std::string context, int os_errno = 0) {
  return Error{code, std::move(context), os_errno};
}

/// A value or the Error that explains its absence. Reading the side that is not there is undefined,
/// as with std::expected: test first.
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
