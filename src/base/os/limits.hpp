// The limits of this process, as the kernel and its control groups have them now. Shell.
#pragma once

#include <exception>
#include <string>

#include "cxxrun/error.hpp"
#include "src/base/core/limits.hpp"

namespace cxxrun::os {

/// Reads a few files: for refusals, not for a start.
[[nodiscard]] Limits read_limits();
/// Of the workers, which do not get the raised limit on descriptors.
[[nodiscard]] Limits worker_limits();

/// "WHAT: why", with the limit of this process that was reached and what helps.
[[nodiscard]] std::string explain_refusal(std::string const& what, int error);
/// The same of an exception of the standard library or of Asio, which names no limit.
[[nodiscard]] std::string explain_refusal(std::string const& what, std::exception const& error);

/// The error's message; of an errno that a limit causes, with the limit and what helps.
[[nodiscard]] std::string explain(Error const& error);

/// New threads of this process get stacks of glibc's usual size, whatever `ulimit -s` says: with 64 KiB they would
/// crash, and of an address space that is limited a few of 8 MiB leave nothing. Call before threads.
void set_stack_size_of_threads();

/// Errc::io when the limits on this process's memory are below what the programs need to say that something failed.
Result<void> check_memory();

/// Whether `count` more descriptors can be opened below this process's limit.
[[nodiscard]] bool descriptors_left(std::uint64_t count);

}  // namespace cxxrun::os
