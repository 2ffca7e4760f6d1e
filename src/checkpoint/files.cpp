#include "src/checkpoint/files.hpp"

#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <climits>

#include "src/checkpoint/crc32c.hpp"
#include "src/checkpoint/file_io.hpp"
#include "src/core/text.hpp"
#include "src/os/system.hpp"

namespace cxxrun::checkpoint {
namespace {

constexpr char const* kLock = "lock";
constexpr char const* kGeneration = "generation";
constexpr char const* kNewGeneration = "generation.tmp";
constexpr mode_t kFileMode = 0666;  // less the umask
constexpr std::size_t kMostClaimBytes = 4096;

std::string parent_of(std::string path) {
  while (path.size() > 1 && path.back() == '/') {
    path.pop_back();
  }
  auto const slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// Of a path that names a directory, or could.
os::UniqueFd open_directory(std::string const& path) {
  os::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd || errno != ENOENT) {
    return fd;
  }
  if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
    return fd;
  }
  os::UniqueFd const parent(::open(parent_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent) {
    (void)force_to_disk(parent.get());
  }
  fd.reset(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return fd;
}

// Writers share it. Where others may write as well it could be a link to some file of this user's: none is followed.
os::UniqueFd open_shared(int directory, char const* name, int flags) {
  os::UniqueFd fd(::openat(directory, name, flags | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, kFileMode));
  struct stat facts {};
  if (fd && (::fstat(fd.get(), &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_nlink > 1)) {
    fd.reset();
    errno = ELOOP;
  }
  return fd;
}

// "pid 7 on node1", for whoever waits; on a full disk they will have to guess.
void sign(int fd) {
  std::string const text = "pid " + std::to_string(::getpid()) + " on " + os::host_name();
  if (::ftruncate(fd, 0) == 0) {
    (void)!::pwrite(fd, text.data(), text.size(), 0);
  }
}

std::string signature(int fd) {
  char text[HOST_NAME_MAX + 32];
  ssize_t const size = ::pread(fd, text, sizeof text, 0);
  return size > 0 ? printable({text, static_cast<std::size_t>(size)}) : "another process";
}

}  // namespace

Lock::~Lock() {
  if (fd_) {
    ::flock(fd_.get(), LOCK_UN);  // a child forked meanwhile has the descriptor too: closing it would not be enough
  }
}

Directory::Directory(std::string path) : path_(std::move(path)) {
  if (path_.empty()) {
    throw Failure(fail(Errc::usage, "the checkpoint directory has no name: set Checkpoint::Options::directory"));
  }
  fd_ = open_directory(path_);
  if (fd_) {
    return;
  }
  int const why = errno;
  if (why == ENOTDIR) {
    throw Failure(fail(Errc::usage, title() + ": a file is in its way: name another directory", why));
  }
  if (why == ENOENT) {
    throw Failure(fail(Errc::not_found,
                       title() + ": \"" + parent_of(path_) + "\" does not exist: make it, or correct the path", why));
  }
  throw disk_failure(title(), why);
}

Lock Directory::lock(std::chrono::milliseconds patience) const {
  os::UniqueFd fd = open_shared(fd_.get(), kLock, O_RDWR | O_CREAT);
  if (!fd) {
    throw disk_failure(errno == ELOOP ? path_of(kLock) : title(), errno);
  }
  auto const until = std::chrono::steady_clock::now() + patience;
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) {
      continue;
    }
    if (errno != EWOULDBLOCK) {
      throw Failure(fail(Errc::io,
                         path_of(kLock) + " cannot be locked: mount its file system with locks (Lustre: -o flock), or "
                                          "name another directory",
                         errno));
    }
    if (std::chrono::steady_clock::now() >= until) {
      throw Failure(fail(Errc::in_use, path_of(kLock) + " is held by " + signature(fd.get()) + " for more than " +
                                           std::to_string(patience.count()) + " ms: it hangs; end it"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  sign(fd.get());
  return Lock(std::move(fd));
}

void Directory::admit(Claim const& mine, When when) const {
  std::optional<Claim> theirs;
  os::UniqueFd const old = open_shared(fd_.get(), kGeneration, O_RDONLY);
  if (!old && errno != ENOENT) {
    throw disk_failure(path_of(kGeneration), errno);
  }
  if (old) {
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
  os::UniqueFd const fresh = open_shared(fd_.get(), kNewGeneration, O_WRONLY | O_CREAT | O_EXCL);
  if (!fresh || !write_at(fresh.get(), std::as_bytes(std::span(text)), 0) || !force_to_disk(fresh.get()) ||
      ::renameat(fd_.get(), kNewGeneration, fd_.get(), kGeneration) != 0 || !force_to_disk(fd_.get())) {
    int const why = errno;
    remove(kNewGeneration);
    throw disk_failure(path_of(kGeneration), why);
  }
}

os::UniqueFd Directory::make_temporary(std::uint64_t step, std::string& name) const {
  for (unsigned number = 0;; ++number) {
    name = temporary_name(step, number);
    os::UniqueFd fd(::openat(fd_.get(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode));
    if (fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
      return fd;
    }
    if (fd || errno != EEXIST) {
      throw disk_failure(path_of(name), errno);
    }
  }
}

void Directory::publish(os::UniqueFd& file, std::string const& temporary, std::uint64_t step) const {
  std::string const name = file_name(step);
  auto const rename = [&](std::string const& from, std::string const& to) {
    return ::renameat(fd_.get(), from.c_str(), fd_.get(), to.c_str()) == 0;
  };
  bool placed = rename(temporary, name);
  if (!placed && errno == EISDIR) {  // somebody else's, so it is kept; reading passed over it
    placed = rename(name, aside_name(name)) && rename(temporary, name);
  }
  if (!placed) {
    throw disk_failure(path_of(name), errno);
  }
  file.reset();  // from here on the temporary name is free, and may be somebody else's
  if (!force_to_disk(fd_.get())) {
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
    os::UniqueFd const fd(::openat(fd_.get(), name.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
    if (fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {  // who wrote it is dead
      remove(name);
    }
  }
}

void Directory::remove(std::string const& name) const noexcept {
  (void)::unlinkat(fd_.get(), name.c_str(), 0);
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
  std::vector<std::string> all;
  int const fd = ::openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  std::unique_ptr<DIR, int (*)(DIR*)> const open(fd < 0 ? nullptr : ::fdopendir(fd), ::closedir);
  if (!open) {
    throw disk_failure(title(), errno);
  }
  errno = 0;
  while (dirent const* const entry = ::readdir(open.get())) {  // NOLINT(concurrency-mt-unsafe): a stream of our own
    all.emplace_back(entry->d_name);
  }
  if (errno != 0) {
    throw disk_failure(title(), errno);
  }
  return all;
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
