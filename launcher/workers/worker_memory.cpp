#include "launcher/workers/worker_memory.hpp"

#include <map>
#include <utility>

#include "launcher/workers/local_listener.hpp"
#include "src/base/os/log.hpp"
#include "src/base/worker/segment.hpp"

namespace cxxrun::launcher {

struct WorkerMemory::Generation {
  explicit Generation(std::size_t workers) : keys(workers) {}

  void on_input(LocalListener::Connection const& connection) {
    worker::SegmentRequest request;
    auto const input = worker::read_segment_request(connection->native_handle(), request);
    if (input == worker::SegmentInput::nothing_yet) {
      listener->await_input(connection);
      return;
    }
    if (input == worker::SegmentInput::request) {
      answer(connection->native_handle(), request.key);
    }
    listener->drop(connection);
  }

  void answer(int connection, std::uint64_t key) {
    auto const decision = keys.ask(key);
    if (decision.what == MemoryKeys::Answer::What::refuse) {
      worker::refuse_segment(connection, decision.why);
      return;
    }
    if (decision.drop) {
      memory.erase(*decision.drop);
    }
    auto& segment = memory[key];
    if (!segment) {  // the key is new, or making its memory failed the last time
      auto made = worker::make_segment();
      if (!made) {
        log(Level::warn, made.error().message());
        worker::refuse_segment(connection, made.error().message());
        return;
      }
      segment = *std::move(made);
    }
    worker::send_segment(connection, segment.get());
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
      io_, directory_, [generation = generation_](auto const& connection) { generation->on_input(connection); });
  return generation_->listener ? generation_->listener->name() : "";
}

void WorkerMemory::end() {
  if (auto const gone = std::exchange(generation_, nullptr); gone && gone->listener) {
    gone->listener->close();
  }
}

}  // namespace cxxrun::launcher
