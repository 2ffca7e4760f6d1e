// Sockets on a host whose ports are used up: by others, be it on purpose. The kernel hands out those of
// ip_local_port_range alone; beyond it there are more.
#pragma once

#include <sys/socket.h>

namespace cxxrun::os {

/// bind(2) to another port at that address. -1 and errno.
int bind_to_spare_port(int fd, sockaddr const* at, socklen_t size);

/// bind(2). Where `at` leaves the port to the kernel and none of those that it hands out is free, another one.
int bind_somewhere(int fd, sockaddr const* at, socklen_t size);

/// connect(2) of a socket that is not bound. When the kernel has no port left to call from, from another one.
int connect_from_somewhere(int fd, sockaddr const* to, socklen_t size);

}  // namespace cxxrun::os
