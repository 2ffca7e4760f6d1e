// Grant: what is in a wrap: the key of a run, by which names that run is known, and for whose calls it was wrapped.
// Pure.
//
// Whoever has the key of an old run and the wraps that were sent then can show them to nobody else: each is for the
// calls of its moment, and of its run. docs/design/trust.md.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cxxrun/error.hpp"
#include "rendezvous/trust/key.hpp"

namespace cxxrun::rendezvous {

/// Names a call, whose bytes are new on each connection.
using CallId = std::array<unsigned char, 16>;
[[nodiscard]] CallId id_of_call(std::string_view call);

/// By which a run is known, as people read them: "run train", "step 4711.0 of cluster". Those who call go by names of
/// their own, and one in common is enough.
using RunNames = std::vector<std::string>;

struct Grant {
  Key key;
  RunNames runs;
  std::vector<CallId> calls;
};

/// A wrap is for so many calls at most, and its run has so many names.
inline constexpr std::size_t kMostCalls = 48;
inline constexpr std::size_t kMostNames = 4;

/// Names that are too long go as their beginning and a hash.
[[nodiscard]] std::string write_grant(Grant const& grant);
/// Nothing: these are no bytes of write_grant's. Total.
[[nodiscard]] std::optional<Grant> read_grant(std::string_view bytes);

/// The key, for whoever has said `call` and looks for one of `runs`. Errc::refused: it is of another run, or was
/// wrapped for other calls.
[[nodiscard]] Result<Key> take_key(Grant const& grant, RunNames const& runs, CallId const& call);
/// Whether that is why a key was not taken: the other end is honest, and of another run.
[[nodiscard]] bool is_of_another_run(std::string_view why);

}  // namespace cxxrun::rendezvous
