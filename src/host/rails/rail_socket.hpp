// Sockets as rails want them. Shell.
#pragma once

#include <chrono>
#include <string>

#include "cxxrun/error.hpp"
#include "cxxrun/store.hpp"
#include "src/host/rails/rail_config.hpp"
#include "src/os/fd.hpp"

namespace cxxrun::host {

/// Starts to connect to a literal address; poll(2) says when it is done.
[[nodiscard]] Result<os::UniqueFd> begin_connect(StoreAddress const& address);

/// No waiting for more to send.
void send_at_once(int fd);

/// For a connection that may be idle for long: what stands between the hosts must not forget it.
void keep_alive(int fd);

/// An error (ETIMEDOUT) when the other host has answered nothing for `silence`. Only for connections on which little
/// is sent: Linux counts a peer that does not read as silent, and a rank may be busy for minutes before it reads.
void notice_silence(int fd, std::chrono::milliseconds silence);

/// A listening TCP socket at an ephemeral port of `host` (a literal address). Throws Failure.
[[nodiscard]] RailListener listen_for_rails(std::string const& host);

}  // namespace cxxrun::host
