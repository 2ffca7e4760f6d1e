// Grant: the content of a wrap: the key of a run, the names of that run, and the calls that it was wrapped for. Pure.
//
// A recorded wrap is useless later, even to somebody who has the key of that run: it is only for the calls of its
// moment and for its run. docs/design/trust.md.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cxxrun/error.hpp"
#include "rendezvous/trust/key.hpp"

namespace cxxrun::rendezvous {

/// Identifies a call, whose bytes are new on each connection.
using CallId = std::array<unsigned char, 16>;
[[nodiscard]] CallId id_of_call(std::string_view call);

/// The names of a run, as people read them: "run train", "step 4711.0 of cluster". A caller looks for names that it
/// knows; one name in common is enough.
using RunNames = std::vector<std::string>;

struct Grant {
  Key key;
  RunNames runs;
  std::vector<CallId> calls;
};

/// Limits of a grant.
inline constexpr std::size_t kMostCalls = 48;
inline constexpr std::size_t kMostNames = 4;

/// A name that is too long is written as its beginning and a hash.
[[nodiscard]] std::string write_grant(Grant const& grant);
/// Nothing: write_grant() did not write these bytes. Total.
[[nodiscard]] std::optional<Grant> read_grant(std::string_view bytes);

/// The key, for the caller that sent `call` and looks for one of `runs`. Errc::refused: the grant is of another run, or
/// for other calls.
[[nodiscard]] Result<Key> take_key(Grant const& grant, RunNames const& runs, CallId const& call);
/// Whether take_key() refused with `why` because of the run: the other end is honest, but of another run.
[[nodiscard]] bool is_of_another_run(std::string_view why);

/// How the key of a run gets to other nodes. Both ways may block: use them on threads of their own.
struct KeyTransports {
  bool munge = false;
  /// A secret that every node has, read from its place, or made there if `create` and it is missing. Empty: no secret.
  std::function<Result<Key>(bool create)> secret;
  /// Names of the run that this process looks for; keys of other runs are refused.
  RunNames looks_for;
  /// Names of the run that it opens.
  RunNames opens;
};

}  // namespace cxxrun::rendezvous
