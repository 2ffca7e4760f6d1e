#include "launcher/agent/job_record.hpp"

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "launcher/logs/log_dir.hpp"
#include "launcher/logs/log_file.hpp"
#include "launcher/report/report_json.hpp"
#include "src/base/core/limits.hpp"
#include "src/base/os/folder.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/thread.hpp"

namespace cxxrun::launcher {
namespace {

constexpr Millis kFilePatience{2000};  // with a file system that hangs
constexpr std::size_t kMaxPendingBytes = std::size_t{4} << 20U;

std::int64_t wall_ms() {
  return std::chrono::duration_cast<Millis>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Warns if a file was not written, with what its file system lacks. Returns `written`. Reads errno.
bool check_written(bool written, std::string const& path) {
  int const error = errno != 0 ? errno : EIO;
  if (!written) {
    auto const room = room_for(std::filesystem::path(path).parent_path(), error);
    log(Level::warn, fail(Errc::io, "cannot write " + path + (room.empty() ? "" : " (" + room + ")"), error).message());
  }
  return written;
}

}  // namespace

struct JobRecord::Queue {
  std::string path;
  std::mutex mutex;
  std::condition_variable changed;
  std::string pending;
  bool closed = false;
  bool broken = false;  ///< the file cannot be written: later events are dropped
  /// Of both files. Kept open, since its name may be given to another directory. None: not opened yet.
  std::shared_ptr<os::Folder const> folder;

  /// Runs on the thread: writes until the queue is closed and empty, or until the file cannot be written.
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
  if (auto const text = read_error_file(from); !text.empty()) {
    check_written(os::write_path(to, error_file_for_caller(text, status)), to);
  }
}

JobRecord::JobRecord(RecordPlace const& place) : dir_(place.dir), shown_dir_(place.host + ":" + dir_) {
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
  log(Level::debug, "the record of the job goes to " + shown_dir_ + "/events.jsonl");
  put(events_header(place.run_id, place.host, wall_ms()));
}

JobRecord::~JobRecord() {
  close();
}

void JobRecord::put(std::string line) {
  {
    std::scoped_lock const lock(queue_->mutex);
    if (queue_->broken || queue_->closed) {
      return;
    }
    if (queue_->pending.size() + line.size() > kMaxPendingBytes) {
      queue_->broken = true;
      log(Level::warn, "the file system of " + queue_->path + " does not answer: no more events are written");
      return;
    }
    queue_->pending += std::move(line) + "\n";
  }
  queue_->changed.notify_one();
}

void JobRecord::close() {
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

std::string JobRecord::add(rendezvous::story::Event const& event) {
  auto line = event_line(event, wall_ms());
  if (queue_) {
    put(line);
  }
  return line;
}

void JobRecord::conclude(rendezvous::Verdict const& verdict) {
  auto const queue = queue_;
  close();
  if (queue) {
    std::unique_lock lock(queue->mutex);
    auto const folder = queue->folder;
    lock.unlock();
    errno = ETIMEDOUT;  // the reason if the thread has not opened the directory yet
    bool const written = folder && folder->replace("verdict.json", verdict_json(verdict), os::kForAll);
    if (check_written(written, dir_ + "/verdict.json")) {
      log(Level::info, "the record of the job: " + shown_dir_ + "/{events.jsonl,verdict.json}");
    }
  }
}

// ---- JobRecords -------------------------------------------------------------------------------------------------

JobRecords::JobRecords(std::string log_dir, std::string host) : log_dir_(std::move(log_dir)), host_(std::move(host)) {}

Result<JobRecords> JobRecords::in(std::string const& log_dir, std::string host) {
  if (auto const made = make_log_dir(log_dir); !made) {
    return made.error();
  }
  std::error_code failed;
  auto const absolute = std::filesystem::absolute(log_dir, failed);
  return JobRecords(failed ? log_dir : absolute.lexically_normal().string(), std::move(host));
}

std::string JobRecords::add(std::string const& run_id, rendezvous::story::Event const& event) {
  auto& record = records_[run_id];
  if (!record) {
    std::string dir;
    if (!log_dir_.empty()) {
      auto const root = make_log_root(log_dir_, run_id, host_, "");
      if (root) {
        dir = root->path;
      } else {
        log(Level::warn, root.error().message());  // the run goes on without a record
      }
    }
    record = std::make_unique<JobRecord>(RecordPlace{dir, run_id, host_});
  }
  return record->add(event);
}

void JobRecords::conclude(std::string const& run_id, rendezvous::Verdict const& verdict) {
  if (auto const it = records_.find(run_id); it != records_.end()) {
    it->second->conclude(verdict);
    records_.erase(it);  // a later run may have the same id
  }
}

}  // namespace cxxrun::launcher
