// Before each source of PyTorch's C++ store tests: a TCPStore that is to be a server is a client of cxxrun-store, which
// it starts on the wanted port (the program: CXXRUN_STORE). Nothing else of a test changes.
#pragma once

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <unistd.h>

namespace seam {

/// A running cxxrun-store; ended with its last store.
struct Program {
  explicit Program(std::uint16_t wanted) {
    int out[2];
    if (::pipe(out) != 0 || (pid = ::fork()) < 0) {
      throw std::runtime_error("no process for a store");
    }
    if (pid == 0) {
      ::dup2(out[1], STDOUT_FILENO);
      ::execl(std::getenv("CXXRUN_STORE"), "cxxrun-store", "--port", std::to_string(wanted).c_str(), nullptr);
      ::_exit(127);
    }
    ::close(out[1]);
    FILE* const said = ::fdopen(out[0], "r");
    unsigned number = wanted;
    if (wanted == 0 && std::fscanf(said, "%u", &number) != 1) {
      throw std::runtime_error("cxxrun-store says no port");
    }
    std::fclose(said);
    port = static_cast<std::uint16_t>(number);
  }
  ~Program() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  Program(Program const&) = delete;
  Program& operator=(Program const&) = delete;
  pid_t pid = -1;
  std::uint16_t port = 0;
};

inline std::shared_ptr<Program> serve(c10d::TCPStoreOptions const& options) {
  static std::map<std::uint16_t, std::weak_ptr<Program>> tenants;
  if (!options.isServer) {
    return nullptr;
  }
  std::shared_ptr<Program> program = options.multiTenant ? tenants[options.port].lock() : nullptr;
  if (!program) {
    program = std::make_shared<Program>(options.port);
    tenants[options.port] = program;
  }
  return program;
}

struct Served {
  std::shared_ptr<Program> program;
};

}  // namespace seam

namespace c10d {

class ServedStore : seam::Served, public TCPStore {
 public:
  explicit ServedStore(std::string const& host, TCPStoreOptions const& options = {})
      : seam::Served{seam::serve(options)}, TCPStore(host, as_client(options, program.get())) {}

 private:
  // Debian builds the client without libuv; the bytes are the same.
  static TCPStoreOptions as_client(TCPStoreOptions options, seam::Program const* program) {
    options.port = program != nullptr ? program->port : options.port;
    options.isServer = false;
    options.useLibUV = false;
    return options;
  }
};

}  // namespace c10d

#define TCPStore ServedStore
