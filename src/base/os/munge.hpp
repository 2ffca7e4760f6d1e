// Munge: credentials that only processes of this user can decode, on every node where munged runs with the same key.
//
// libmunge is loaded when it is needed, and may be missing. A call takes 0.1 ms, but blocks for 10 s when munged is
// stopped: use a thread that need not be joined. https://github.com/dun/munge/wiki
#pragma once

#include <string>
#include <string_view>

#include "cxxrun/error.hpp"

namespace cxxrun::os {

/// A credential that holds `payload`, for this uid only. Errc::not_found: there is no munge here; Errc::io: munged
/// refuses, or does not answer.
[[nodiscard]] Result<std::string> munge_encode(std::string_view payload);
/// The payload of a credential. A credential that is old or was decoded before is accepted. Errc::permission: it was
/// made by or for another user; other errors as munge_encode.
[[nodiscard]] Result<std::string> munge_decode(std::string const& credential);

}  // namespace cxxrun::os
