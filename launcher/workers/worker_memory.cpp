#include "launcher/workers/worker_memory.hpp"

#include <map>
#include <utility>

#include "launcher/workers/local_listener.hpp"
#include "launcher/workers/memory_keys.hpp"
#include "src/base/os/log.hpp"
#include "src/base/worker/segment.hpp"

namespace cxxrun::launcher {

struct WorkerMemory::Generation {
  explicit Generation(std::size_t workers) : keys(workers) {}

  void heard(LocalListener::Connection const& connection) {
    host::SegmentRequest request;
    auto const input = host::read_request(connection->native_handle(), request);
    if (input == host::SegmentInput::nothing_yet) {
      listener->hear(connection);
      return;
    }
    if (input == host::SegmentInput::request) {
      answer(connection->native_handle(), request.key);
    }
    listener->drop(connection);
  }

  void answer(int connection, std::uint64_t key) {
    auto const said = keys.ask(key);
    if (said.what == MemoryKeys::Answer::What::refuse) {
      host::answer_no(connection, said.why);
      return;
    }
    if (said.drop) {
      memory.erase(*said.drop);
    }
    auto& segment = memory[key];
    if (!segment) {  // new, or it could not be made the last time
      auto made = host::make_segment();
      if (!made) {
        log(Level::warn, made.error().message());
        host::answer_no(connection, made.error().message());
        return;
      }
      segment = *std::move(made);
    }
    host::answer_with(connection, segment.get());
  }

  std::shared_ptr<LocalListener> listener;
  MemoryKeys keys;
  std::map<std::uint64_t, os::UniqueFd> memory;
};

WorkerMemory::WorkerMemory(boost::asio::io_context& io, std::string directory)
    : io_(io), directory_(std::move(directory)) {}

WorkerMemory::~WorkerMemory() {
  end();
}

std::string WorkerMemory::begin(std::size_t workers) {
  end();
  generation_ = std::make_shared<Generation>(workers);
  generation_->listener = LocalListener::start(
      io_, directory_, [generation = generation_](auto const& connection) { generation->heard(connection); });
  return generation_->listener ? generation_->listener->name() : "";
}

void WorkerMemory::end() {
  if (auto const gone = std::exchange(generation_, nullptr); gone && gone->listener) {
    gone->listener->close();
  }
}

}  // namespace cxxrun::launcher
