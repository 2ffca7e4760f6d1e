// StoreConnection: one connection to a store: requests out, replies in, each until a deadline. Shell.
//
// What fails leaves it broken, and it says why ever after: bytes of an answer that came too late would be taken for
// those of the next one.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "cxxrun/error.hpp"
#include "cxxrun/store.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/wire/store_protocol.hpp"

namespace cxxrun::client {

class StoreConnection {
 public:
  explicit StoreConnection(StoreAddress address);

  /// Dials, sends the greeting and reads the first reply, which proves that a c10d store is at the other end.
  [[nodiscard]] Result<void> open(TimePoint deadline);
  /// Instead of open(): whether the store there is one from before the greeting, which it answers by closing.
  [[nodiscard]] bool is_ungreeted(TimePoint deadline);
  [[nodiscard]] bool is_broken() const { return broken_.has_value(); }
  /// "store at node1 port 29400".
  [[nodiscard]] std::string name() const {
    return "store at " + address_.host + " port " + std::to_string(address_.port);
  }
  Error breaks(Errc code, std::string const& why, int os_errno = 0);

  /// Errors: usage, for what no server takes: nothing is sent then; and those of the connection.
  [[nodiscard]] Result<void> request(wire::StoreRequest const& what, TimePoint deadline);
  /// The next `size` bytes. A deadline that passes does not break the connection here: the caller knows whether it may
  /// go on.
  [[nodiscard]] Result<std::string> receive(std::size_t size, TimePoint deadline);
  /// A reply that must come: without it the connection is of no more use.
  [[nodiscard]] Result<std::string> expect(std::size_t size, TimePoint deadline);
  [[nodiscard]] Result<std::string> expect_value(TimePoint deadline);
  template <class Number>
  [[nodiscard]] Result<Number> expect_number(TimePoint deadline) {
    auto const bytes = expect(sizeof(Number), deadline);
    if (!bytes) {
      return bytes.error();
    }
    Number number{};
    std::memcpy(&number, bytes->data(), sizeof number);
    return number;
  }

 private:
  [[nodiscard]] Result<void> send(std::string_view bytes, TimePoint deadline);
  [[nodiscard]] Result<void> fill(TimePoint deadline);
  /// Not a timeout, after which some try again.
  Error interrupted() { return breaks(Errc::closed, "nothing more is wanted of it"); }

  StoreAddress address_;
  os::UniqueFd fd_;
  std::string_view unread_;      // received, not yet used; points into the buffer
  int pid_;                      // a forked child's bytes would get between its parent's
  std::optional<Error> broken_;  // why this connection cannot be used any more
  std::array<char, 64UL * 1024> buffer_{};
};

}  // namespace cxxrun::client
