#include "src/runtime/checkpoint/files.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <new>
#include <optional>
#include <span>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "cxxrun/failure.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/path_owners.hpp"
#include "src/base/os/random.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::checkpoint {
namespace {

// ---- whole reads and writes, and disk errors with their remedy

/// Bytes read or written at once: small enough for a core's cache, so the checksum needs no extra trip to memory.
constexpr std::size_t kChunkBytes = 1U << 20U;

/// Writes all bytes, or returns false and sets errno.
bool write_at(int fd, std::span<std::byte const> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    auto const n = os::retried([&] { return ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
    if (n == 0) {
      errno = ENOSPC;
    }
    if (n <= 0) {
      return false;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::size_t>(n);
  }
  return true;
}

/// Reads up to the end of the file; returns the number of bytes. Nothing, and errno, if the disk fails.
std::optional<std::size_t> read_at(int fd, std::span<std::byte> bytes, std::uint64_t offset) {
  std::size_t have = 0;
  while (have < bytes.size()) {
    auto const rest = bytes.subspan(have);
    auto const n =
        os::retried([&] { return ::pread(fd, rest.data(), rest.size(), static_cast<off_t>(offset + have)); });
    if (n == 0) {
      break;
    }
    if (n < 0) {
      return std::nullopt;
    }
    have += static_cast<std::size_t>(n);
  }
  return have;
}

/// fsync of a file or directory; false and errno on failure.
bool force_to_disk(int fd) {
  // EINVAL: the file system does not support fsync of directories.
  return os::retried([&] { return ::fsync(fd); }) == 0 || errno == EINVAL;
}

/// "on HOST: FILE: REMEDY: text of errno".
Failure disk_failure(std::string const& file, int os_errno) {
  auto const failure = [&](Errc code, char const* remedy) {
    return Failure(fail(code, "on " + os::worker_host_name() + ": " + file + remedy, os_errno));
  };
  switch (os_errno) {
    case ENOSPC:
    case EDQUOT:
      return failure(Errc::io,
                     " does not fit: free some space or name another directory; earlier checkpoints are unchanged");
    case EFBIG:
      return failure(Errc::io,
                     " is larger than a file may be: raise the limit of file sizes (ulimit -f) or name another "
                     "directory; earlier checkpoints are unchanged");
    case EACCES:
    case EPERM:
    case EROFS:
      return failure(Errc::permission,
                     " cannot be used: let this user read and write there, or name another directory");
    case ELOOP: return failure(Errc::permission, " is a symbolic link or not a regular file: remove it");
    case EMFILE:
    case ENFILE: return failure(Errc::io, " cannot be opened: raise the limit of open files (ulimit -n)");
    default: return failure(Errc::io, ": the disk failed; look at the kernel's log, or name another directory");
  }
}

// ---- a directory

constexpr char const* kLock = "lock";
constexpr char const* kGeneration = "generation";
constexpr char const* kNewGeneration = "generation.tmp";
constexpr std::chrono::seconds kOthersPatience(1);  // for a lock file that another user could have opened
constexpr unsigned kFewTemporaries = 16;
constexpr unsigned kMostTemporaries = 1000;
constexpr std::size_t kMostClaimBytes = 4096;

// Refuses a path of which another user may have made a part, and may have filled the directory.
void refuse_strange(std::string const& title, os::PathWalk const& walked) {
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
                                             " is not a valid claim of a checkpoint directory: remove it, if no other "
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
  // Renamed into place, so that a complete claim, the old or the new one, exists whenever this process dies.
  std::string const text = format_claim(mine);
  remove(kNewGeneration);
  os::UniqueFd const fresh = folder_.create(kNewGeneration);
  if (!fresh || !os::may_write_to(text.size()) || !write_at(fresh.get(), std::as_bytes(std::span(text)), 0) ||
      !force_to_disk(fresh.get()) || !folder_.publish(fresh.get(), kNewGeneration, kGeneration, os::kForAll) ||
      !force_to_disk(folder_.get())) {
    int const why = errno;
    remove(kNewGeneration);
    throw disk_failure(path_of(kGeneration), why);
  }
}

os::UniqueFd Directory::make_temporary(std::uint64_t step, std::string& name) const {
  for (unsigned number = 0;; ++number) {
    bool const crowded = number >= kFewTemporaries;  // other users who may write here may have taken the low numbers
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
  if (!placed && errno == EISDIR) {  // another user's directory, so it is kept; reading has skipped it
    placed = folder_.rename(name, aside_name(name)) && folder_.rename(temporary, name);
  }
  if (!placed) {
    throw disk_failure(path_of(name), errno);
  }
  file.reset();  // from now on another process may use the temporary name
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
    if (fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {  // its writer is dead
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
  // Reserve the space first, so that a full disk is reported before minutes of writing. Not every file system can.
  require(os::may_write_to(wanted));
  require(::fallocate(file.get(), 0, 0, static_cast<off_t>(wanted)) == 0 || errno == EOPNOTSUPP || errno == ENOSYS ||
          errno == EINTR);
  std::uint64_t at = header_bytes(header);
  for (std::size_t i = 0; i < blobs.size(); ++i) {
    for (auto rest = blobs[i].bytes; !rest.empty();) {
      auto const chunk = rest.first(std::min(rest.size(), kChunkBytes));  // checksummed and written while in the cache
      header.blobs[i].crc = crc32c(chunk, header.blobs[i].crc);
      require(write_at(file.get(), chunk, at));
      rest = rest.subspan(chunk.size());
      (void)::sync_file_range(file.get(), static_cast<off_t>(at), static_cast<off_t>(chunk.size()),
                              SYNC_FILE_RANGE_WRITE);  // start writeback now, so that fsync has little left to do
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

// ---- reading: which files are complete, and what is wrong with the others

namespace {

Error bad_file(std::string why, int os_errno = 0) {
  return fail(Errc::protocol, std::move(why), os_errno);
}

// A missing permission or a lack of descriptors does not mean that the file is damaged: skipping it would discard the
// newest state. So those errors throw (open_step).
Result<OpenedFile> open_checked(os::UniqueFd fd, struct stat const& facts, std::uint64_t step) {
  auto const size = static_cast<std::uint64_t>(facts.st_size);
  std::vector<std::byte> head(kPreambleBytes);
  auto const begun = read_at(fd.get(), head, 0);
  if (!begun) {
    return bad_file("cannot be read", errno);
  }
  head.resize(*begun);
  auto const length = decode_preamble(head);
  if (!length) {
    return length.error();
  }
  head.resize(std::min<std::uint64_t>(*length, size));
  auto const have = read_at(fd.get(), head, 0);
  if (!have) {
    return bad_file("cannot be read", errno);
  }
  head.resize(*have);
  auto header = decode(head, size);
  if (!header) {
    return header.error();
  }
  if (header->step != step) {
    return bad_file("is of step " + std::to_string(header->step));
  }
  return OpenedFile{std::move(fd), *std::move(header)};
}

Result<std::vector<std::byte>> read_blob(int fd, Entry const& entry, std::uint64_t at) {
  std::vector<std::byte> bytes;
  bytes.reserve(static_cast<std::size_t>(entry.size));
  std::vector<std::byte> chunk;
  std::uint32_t crc = 0;
  while (bytes.size() < entry.size) {
    chunk.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kChunkBytes, entry.size - bytes.size())));
    auto const have = read_at(fd, chunk, at + bytes.size());
    if (!have || *have < chunk.size()) {
      return bad_file("blob \"" + entry.name + "\" cannot be read", have ? 0 : errno);
    }
    crc = crc32c(chunk, crc);
    bytes.insert(bytes.end(), chunk.begin(), chunk.end());
  }
  if (crc != entry.crc) {
    return bad_file("blob \"" + entry.name + "\" is damaged");
  }
  return bytes;
}

}  // namespace

void require_model(std::string const& path, Header const& header, std::string const& model) {
  if (header.model != model) {
    throw Failure(fail(Errc::usage, path + " is a checkpoint of model \"" + header.model + "\", not of \"" + model +
                                        "\": name another directory"));
  }
}

Result<os::UniqueFd> Directory::open_step(std::string const& name, struct stat& facts) const {
  os::UniqueFd fd = folder_.open_file(name);
  int const why = errno;
  if (fd) {
    if (::fstat(fd.get(), &facts) != 0) {
      return bad_file("cannot be read", errno);
    }
    if (is_strangers(facts)) {
      return bad_file("belongs to uid " + std::to_string(facts.st_uid) +
                      ", neither this user nor the directory's owner");
    }
    return fd;
  }
  if (why == ENOENT) {
    return fail(Errc::not_found, "was removed after it was listed");
  }
  bool const seen = ::fstatat(folder_.get(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0;
  if (seen && S_ISDIR(facts.st_mode)) {
    return bad_file("is not a file");
  }
  if (why == ELOOP) {
    return bad_file("is a symbolic link or not a regular file");
  }
  if (why == EACCES && seen && is_strangers(facts)) {
    return bad_file("belongs to another user", EACCES);
  }
  if (why == EIO || why == ENXIO) {
    return bad_file("cannot be read", why);
  }
  throw disk_failure(path_of(name), why);
}

Result<OpenedFile> Directory::open_whole(std::uint64_t step) const {
  struct stat facts {};
  auto file = open_step(file_name(step), facts);
  auto opened = file ? open_checked(*std::move(file), facts, step) : Result<OpenedFile>(file.error());
  if (!opened && opened.error().code == Errc::usage) {
    throw Failure(fail(Errc::usage, path_of(file_name(step)) + " " + opened.error().context));
  }
  return opened;
}

Result<Header> Directory::header(std::uint64_t step) const {
  auto opened = open_whole(step);
  return opened ? Result<Header>(std::move(opened->header)) : opened.error();
}

Result<Checkpoint::Loaded> Directory::load(std::uint64_t step, std::string const& model) const {
  Checkpoint::Loaded loaded;
  loaded.path = path_of(file_name(step));
  auto const opened = open_whole(step);
  if (!opened) {
    return opened.error();
  }
  Header const& header = opened->header;
  require_model(loaded.path, header, model);
  loaded.step = header.step;
  loaded.generation = header.generation;
  std::uint64_t at = header_bytes(header);
  try {
    for (Entry const& entry : header.blobs) {
      auto blob = read_blob(opened->fd.get(), entry, at);
      if (!blob) {
        return blob.error();
      }
      loaded.blobs.emplace_back(entry.name, *std::move(blob));
      at += entry.size;
    }
  } catch (std::bad_alloc const&) {
    throw Failure(fail(Errc::io, loaded.path + " has " + std::to_string(*file_bytes(header)) +
                                     " bytes, more than this process can allocate: load it where there is more "
                                     "memory"));
  }
  return loaded;
}

}  // namespace cxxrun::checkpoint
