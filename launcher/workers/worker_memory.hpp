// WorkerMemory: hands the workers of this node the memory that they share (src/base/worker/segment.hpp). Shell.
//
// One socket per generation, whose name the workers get as CXXRUN_SEGMENT; one memfd per communicator, made when the
// first worker asks. The agent never maps it: whatever workers write there cannot harm it. Nothing but a socket is made
// for programs that do not ask. Runs on the thread of the io_context.
#pragma once

#include <memory>
#include <string>

namespace boost::asio {
class io_context;
}

namespace cxxrun::launcher {

class WorkerMemory {
 public:
  /// Its sockets are made in `directory` (host::listen_for_segments).
  explicit WorkerMemory(boost::asio::io_context& io, std::string directory = "");
  ~WorkerMemory();
  WorkerMemory(WorkerMemory const&) = delete;
  WorkerMemory& operator=(WorkerMemory const&) = delete;

  /// A new generation of so many workers: gives up what the one before had and returns the name of the new socket; ""
  /// without a descriptor to spare (workers then make their memory themselves).
  std::string begin(std::size_t workers);
  /// The workers are gone: so is their memory.
  void end();

 private:
  struct Generation;
  boost::asio::io_context& io_;
  std::string directory_;
  std::shared_ptr<Generation> generation_;
};

}  // namespace cxxrun::launcher
