// One packet on a unix socket of type SOCK_SEQPACKET, with at most one descriptor along. Shell.
#pragma once

#include <span>
#include <string_view>
#include <sys/types.h>

#include "src/base/os/fd.hpp"

namespace cxxrun::os {

/// Sends `bytes`, and `descriptor` unless it is -1. Returns what sendmsg() does, errno with it; a signal neither
/// interrupts it nor, where nobody reads any more, is raised by it.
ssize_t send_packet(int connection, std::string_view bytes, int descriptor = -1, int flags = 0) noexcept;

/// The next packet, cut to `into`, and in `descriptor` what has come along (close-on-exec), or nothing. Returns what
/// recvmsg() does, errno with it; a signal does not interrupt it.
ssize_t receive_packet(int connection, std::span<char> into, UniqueFd& descriptor, int flags = 0) noexcept;

}  // namespace cxxrun::os
