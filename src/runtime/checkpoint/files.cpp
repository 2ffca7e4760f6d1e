#include "src/runtime/checkpoint/files.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "src/base/core/text.hpp"
#include "src/base/os/path_owners.hpp"
#include "src/base/os/random.hpp"
#include "src/runtime/checkpoint/crc32c.hpp"
#include "src/runtime/checkpoint/file_io.hpp"

namespace cxxrun::checkpoint {
namespace {

constexpr char const* kLock = "lock";
constexpr char const* kGeneration = "generation";
constexpr char const* kNewGeneration = "generation.tmp";
constexpr std::chrono::seconds kOthersPatience(1);  // for a lock that others could have opened
constexpr unsigned kFewTemporaries = 16;
constexpr unsigned kMostTemporaries = 1000;
constexpr std::size_t kMostClaimBytes = 4096;

// Others may have made it beforehand, and have filled it.
void refuse_strange(std::string const& title, os::Walked const& walked) {
  auto const* const step = os::first_strange(walked.steps, ::geteuid());
  if (step == nullptr) {
    return;
  }
  struct stat facts {};
  bool const last = step == &walked.steps.back() && !step->is_link;
  if (last && walked.folder && ::fstat(walked.folder.get(), &facts) == 0 && walked.folder.is_own(facts)) {
    return;
  }
  throw Failure(fail(Errc::permission, title + ": " + printable(step->path) +
                                           (step->is_link ? " is a link of uid " : " belongs to uid ") +
                                           std::to_string(step->owner) +
                                           ", who may have made it beforehand: name a directory of your own; "
                                           "checkpoints that you trust can be copied there"));
}

}  // namespace

Directory::Directory(std::string path) : path_(std::move(path)) {
  if (path_.empty()) {
    throw Failure(fail(Errc::usage, "the checkpoint directory has no name: set Checkpoint::Options::directory"));
  }
  auto walked = os::walk(path_, true);
  int const why = errno;
  refuse_strange(title(), walked);
  if (walked.folder) {
    folder_ = std::move(walked.folder);
    if (auto const parent = walked.made ? os::Folder::open(os::parent_of(path_)) : os::Folder()) {
      (void)force_to_disk(parent.get());
    }
    return;
  }
  if (why == ENOTDIR) {
    throw Failure(fail(Errc::usage, title() + ": a file is in its way: name another directory", why));
  }
  if (why == ENOENT) {
    throw Failure(fail(Errc::not_found,
                       title() + ": \"" + os::parent_of(path_) + "\" does not exist: make it, or correct the path",
                       why));
  }
  throw disk_failure(title(), why);
}

os::FileLock Directory::lock(std::chrono::milliseconds patience) const {
  auto const begin = std::chrono::steady_clock::now();
  auto const waited = [&] { return std::chrono::steady_clock::now() - begin; };
  for (;;) {
    auto const left = waited() < kOthersPatience ? os::Patience::some : os::Patience::none;
    if (auto lock = os::try_lock(folder_, kLock, left)) {
      return *std::move(lock);
    }
    switch (errno) {
      case EWOULDBLOCK: break;
      case EPERM:
        throw Failure(fail(Errc::permission, path_of(kLock) + " or " + kLock +
                                                 ".tmp beside it is another user's and "
                                                 "cannot be replaced: have it removed, or name a "
                                                 "directory of your own"));
      case ENOLCK:
      case EOPNOTSUPP:
      case ENOSYS:
      case EINVAL:
        throw Failure(fail(Errc::io,
                           path_of(kLock) +
                               " cannot be locked: mount its file system with locks (Lustre: -o flock), or "
                               "name another directory",
                           errno));
      default: throw disk_failure(errno == ELOOP ? path_of(kLock) : title(), errno);
    }
    if (waited() >= patience) {
      auto const holder = os::lock_holder(folder_, kLock);
      throw Failure(
          fail(Errc::in_use, path_of(kLock) + " is held " +
                                 (holder.empty() ? "by a process that cannot be named," : "by " + holder) +
                                 " for more than " + std::to_string(patience.count()) + " ms: " +
                                 (holder.empty() ? "find it with lsof on the nodes that use the directory, or "
                                                   "name another one"
                                                 : "it hangs; end it")));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

bool Directory::is_strangers(struct stat const& file) const {
  struct stat around {};
  return file.st_uid != ::geteuid() && file.st_uid != 0 &&
         (::fstat(folder_.get(), &around) != 0 || file.st_uid != around.st_uid);
}

void Directory::admit(Claim const& mine, When when) const {
  std::optional<Claim> theirs;
  os::UniqueFd const old = folder_.open_file(kGeneration);
  struct stat facts {};
  if ((!old && errno != ENOENT) || (old && ::fstat(old.get(), &facts) != 0)) {
    throw disk_failure(path_of(kGeneration), errno);
  }
  if (old && !is_strangers(facts)) {
    std::vector<std::byte> text(kMostClaimBytes);
    auto const size = read_at(old.get(), text, 0);
    theirs = parse_claim({reinterpret_cast<char const*>(text.data()), size.value_or(0)});
    if (!theirs) {
      throw Failure(fail(Errc::protocol, path_of(kGeneration) +
                                             " is not what a checkpoint directory has there: remove it, if no other "
                                             "job uses the directory"));
    }
  }
  auto const admission = checkpoint::admit(mine, theirs, when);
  if (!admission.refusal.empty()) {
    throw Failure(fail(Errc::refused, title() + ": " + admission.refusal));
  }
  if (!admission.write) {
    return;
  }
  // Renamed into place: whenever this process dies, one claim or the other is there, and whole.
  std::string const text = format_claim(mine);
  remove(kNewGeneration);
  os::UniqueFd const fresh = folder_.create(kNewGeneration);
  if (!fresh || !write_at(fresh.get(), std::as_bytes(std::span(text)), 0) || !force_to_disk(fresh.get()) ||
      !folder_.publish(fresh.get(), kNewGeneration, kGeneration, os::kForAll) || !force_to_disk(folder_.get())) {
    int const why = errno;
    remove(kNewGeneration);
    throw disk_failure(path_of(kGeneration), why);
  }
}

os::UniqueFd Directory::make_temporary(std::uint64_t step, std::string& name) const {
  for (unsigned number = 0;; ++number) {
    bool const crowded = number >= kFewTemporaries;  // where others may write they may be ahead of us
    name = temporary_name(step, crowded ? static_cast<unsigned>(random_number()) : number);
    os::UniqueFd fd = folder_.create(name);
    if (fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
      return fd;
    }
    bool const taken = errno == (fd ? EWOULDBLOCK : EEXIST);
    if (!taken || number == kMostTemporaries) {
      throw disk_failure(path_of(name), errno);
    }
  }
}

void Directory::publish(os::UniqueFd& file, std::string const& temporary, std::uint64_t step) const {
  std::string const name = file_name(step);
  bool placed = folder_.publish(file.get(), temporary, name, os::kForAll);
  if (!placed && errno == EISDIR) {  // somebody else's, so it is kept; reading passed over it
    placed = folder_.rename(name, aside_name(name)) && folder_.rename(temporary, name);
  }
  if (!placed) {
    throw disk_failure(path_of(name), errno);
  }
  file.reset();  // from here on the temporary name is free, and may be somebody else's
  if (!force_to_disk(folder_.get())) {
    throw disk_failure(path_of(name), errno);
  }
}

void Directory::prune(std::uint64_t step, int keep) const {
  remove_stale();
  int whole = 1;  // the one just written
  for (std::uint64_t const each : steps()) {
    if (each == step) {
      continue;
    }
    if (whole >= keep) {
      remove(file_name(each));
    } else if (header(each)) {
      ++whole;
    }
  }
}

void Directory::remove_stale() const {
  for (std::string const& name : names()) {
    if (!is_temporary(name)) {
      continue;
    }
    os::UniqueFd const fd = folder_.open_own(name);
    if (fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {  // who wrote it is dead
      remove(name);
    }
  }
}

void Directory::remove(std::string const& name) const noexcept {
  (void)folder_.remove(name);
}

void Directory::write(os::UniqueFd const& file, std::string const& name, Header header,
                      std::vector<Checkpoint::Blob> const& blobs) const {
  std::uint64_t const wanted = *file_bytes(header);
  auto const require = [&](bool done) {
    if (!done) {
      throw disk_failure("checkpoint " + path_of(name) + " of " + std::to_string(wanted) + " bytes", errno);
    }
  };
  // A disk that is too small says so before minutes of writing. Not every file system can tell.
  require(::fallocate(file.get(), 0, 0, static_cast<off_t>(wanted)) == 0 || errno == EOPNOTSUPP || errno == ENOSYS ||
          errno == EINTR);
  std::uint64_t at = header_bytes(header);
  for (std::size_t i = 0; i < blobs.size(); ++i) {
    for (auto rest = blobs[i].bytes; !rest.empty();) {
      auto const chunk = rest.first(std::min(rest.size(), kChunkBytes));  // summed and written while in the cache
      header.blobs[i].crc = crc32c(chunk, header.blobs[i].crc);
      require(write_at(file.get(), chunk, at));
      rest = rest.subspan(chunk.size());
      (void)::sync_file_range(file.get(), static_cast<off_t>(at), static_cast<off_t>(chunk.size()),
                              SYNC_FILE_RANGE_WRITE);  // the disk begins now, so that fsync has little left to wait for
      at += chunk.size();
    }
  }
  auto const head = encode(header);
  require(write_at(file.get(), head, 0) && force_to_disk(file.get()));
}

std::vector<std::string> Directory::names() const {
  auto all = folder_.names();
  if (!all) {
    throw disk_failure(title(), errno);
  }
  return *std::move(all);
}

std::vector<std::uint64_t> Directory::steps() const {
  std::vector<std::uint64_t> all;
  for (std::string const& name : names()) {
    if (auto const step = step_of(name)) {
      all.push_back(*step);
    }
  }
  std::sort(all.rbegin(), all.rend());
  return all;
}

}  // namespace cxxrun::checkpoint
