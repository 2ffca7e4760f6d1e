// Munge: credentials that only processes of this user can decode, on every node where munged runs with the same key.
//
// libmunge is loaded when it is needed, and may be missing. Calls take 0.1 ms; behind a munged that is stopped they
// block for 10 s: use a thread that nobody has to wait for. https://github.com/dun/munge/wiki
#pragma once

#include <string>
#include <string_view>

#include "cxxrun/error.hpp"

namespace cxxrun::os {

/// A credential that holds `payload`, for the own uid alone. Errc::not_found: there is no munge here; Errc::io: it
/// refuses, or does not answer.
[[nodiscard]] Result<std::string> munge_encode(std::string_view payload);
/// What it holds. One that was decoded before, or is old, is as good as a new one. Errc::permission: it was made by
/// another user, or for another one; else as munge_encode.
[[nodiscard]] Result<std::string> munge_decode(std::string const& credential);

}  // namespace cxxrun::os
