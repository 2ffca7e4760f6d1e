// PyTorch's libuv store server alone, of its source package: what store_bench.py compiles beside that source and
// measures cxxrun-store against. Prints its port. Not part of the build.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/socket.h>
#include <torch/csrc/distributed/c10d/TCPStoreBackend.hpp>
#include <unistd.h>

namespace c10d::detail {

// The file that has these also has the older server, and with it half of PyTorch.
BackgroundThread::BackgroundThread() = default;
BackgroundThread::~BackgroundThread() = default;
void BackgroundThread::start() {
  is_running_ = true;
  daemonThread_ = std::thread([this] { run(); });
}
void BackgroundThread::dispose() {
  std::abort();  // nobody ends it but a signal
}
bool BackgroundThread::stop_requested() {
  return false;
}
std::string formatSockAddr(sockaddr const* /*address*/, socklen_t /*size*/) {
  return "a client";
}

}  // namespace c10d::detail

int main() {
  c10d::TCPStoreOptions options;
  options.port = 0;
  auto const server = c10d::detail::create_libuv_tcpstore_backend(options);
  server->start();
  std::printf("%u\n", static_cast<unsigned>(server->port()));
  std::fflush(stdout);
  ::pause();
}
