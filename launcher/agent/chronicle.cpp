#include "launcher/agent/chronicle.hpp"

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <unistd.h>
#include <utility>

#include "launcher/logs/log_file.hpp"
#include "launcher/report/report.hpp"
#include "launcher/report/story_json.hpp"
#include "src/base/core/limits.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/bounded_thread.hpp"
#include "src/base/os/folder.hpp"
#include "src/base/os/log.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::size_t kErrorFileBytes = std::size_t{1} << 20U;
constexpr Millis kFilePatience{2000};  // for a file system that hangs
constexpr std::size_t kMostPending = std::size_t{4} << 20U;

std::int64_t wall_ms() {
  return std::chrono::duration_cast<Millis>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// A line about what could not be written.
bool say(bool written, std::string const& path) {
  int const error = errno != 0 ? errno : EIO;
  if (!written) {
    auto const room = room_for(std::filesystem::path(path).parent_path(), error);
    log(Level::warn, fail(Errc::io, "cannot write " + path + (room.empty() ? "" : " (" + room + ")"), error).message());
  }
  return written;
}

}  // namespace

struct Chronicle::Queue {
  std::string path;
  std::mutex mutex;
  std::condition_variable changed;
  std::string pending;
  bool closed = false;
  bool broken = false;  ///< nothing is written any more
  /// Kept: others may give its name to another one. None: not opened yet.
  std::shared_ptr<os::Folder const> folder;

  /// Until it is closed and empty, or the file cannot be written: said once.
  void write() {
    auto const opened =
        std::make_shared<os::Folder const>(os::Folder::of_ours(std::filesystem::path(path).parent_path()));
    {
      std::scoped_lock const lock(mutex);
      folder = opened;
    }
    auto const file = open_log_file(*opened, path);
    if (!file) {
      give_up(file.error());
      return;
    }
    for (std::unique_lock lock(mutex);;) {
      changed.wait(lock, [this] { return closed || !pending.empty(); });
      std::string const lines = std::exchange(pending, {});
      if (lines.empty()) {
        return;
      }
      lock.unlock();
      if (auto const written = append_to_log(*file, path, lines); !written) {
        give_up(written.error());
        return;
      }
      lock.lock();
    }
  }
  void give_up(Error const& error) {
    log(Level::warn, error.message());
    std::scoped_lock const lock(mutex);
    broken = true;
    pending.clear();
  }
};

void hand_error_file(std::string const& from, std::string const& to, ExitStatus const& status) {
  if (auto const text = read_worker_file(from, kErrorFileBytes); !text.empty()) {
    say(os::write_path(to, error_file_for_caller(text, status)), to);
  }
}

Chronicle::Chronicle(ChroniclePlace const& place) : dir_(place.dir), where_(place.host + ":" + dir_) {
  if (dir_.empty()) {
    log(Level::debug, "the record of the job is not kept: there is no --log-dir");
    return;
  }
  queue_ = std::make_shared<Queue>();
  queue_->path = dir_ + "/events.jsonl";
  thread_ = os::BoundedThread::start("cxxrun-story", [queue = queue_] { queue->write(); });
  if (!thread_) {
    log(Level::warn, "no thread to write " + queue_->path);
    queue_.reset();
    return;
  }
  log(Level::debug, "the record of the job goes to " + where_ + "/events.jsonl");
  put(story_begins(place.run_id, place.host, wall_ms()));
}

Chronicle::~Chronicle() {
  close();
}

void Chronicle::put(std::string line) {
  {
    std::scoped_lock const lock(queue_->mutex);
    if (queue_->broken || queue_->closed) {
      return;
    }
    if (queue_->pending.size() + line.size() > kMostPending) {
      queue_->broken = true;
      log(Level::warn, "the file system of " + queue_->path + " does not answer: events are not written any more");
      return;
    }
    queue_->pending += std::move(line) + "\n";
  }
  queue_->changed.notify_one();
}

void Chronicle::close() {
  if (!queue_) {
    return;
  }
  {
    std::scoped_lock const lock(queue_->mutex);
    queue_->closed = true;
  }
  queue_->changed.notify_one();
  if (!thread_->join_until(Clock::now() + kFilePatience)) {
    log(Level::warn, "the file system of " + queue_->path + " does not answer: its last events are lost");
  }
  queue_.reset();
}

std::string Chronicle::add(rendezvous::story::Event const& event) {
  auto line = event_line(event, wall_ms());
  if (queue_) {
    put(line);
  }
  return line;
}

void Chronicle::conclude(rendezvous::Verdict const& verdict) {
  auto const queue = queue_;
  close();
  if (queue) {
    std::unique_lock lock(queue->mutex);
    auto const folder = queue->folder;
    lock.unlock();
    errno = ETIMEDOUT;
    if (say(folder && folder->replace("verdict.json", verdict_json(verdict), os::kForAll), dir_ + "/verdict.json")) {
      log(Level::info, "the record of the job: " + where_ + "/{events.jsonl,verdict.json}");
    }
  }
}

}  // namespace cxxrun::launcher
