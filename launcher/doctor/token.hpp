// The file by which nodes see whether they have one working directory, and each other's locks in it. Shell.
//
// Only where that directory has just answered: nothing here has a time limit.
#pragma once

#include <string>

#include "launcher/doctor/finding.hpp"
#include "src/base/os/caretaker.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::launcher::doctor {

/// On the first node: the file, locked for as long as the descriptor lives; none when it cannot be made. "fs.shared",
/// "fs.locked".
[[nodiscard]] os::UniqueFd show_token(std::string const& name, os::Caretaker const& caretaker, Facts& facts);
/// On another node: "fs.shared", "fs.lock_seen".
void look_for_token(std::string const& name, Facts& facts);

}  // namespace cxxrun::launcher::doctor
