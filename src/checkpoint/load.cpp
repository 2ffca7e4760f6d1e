// Reading: what is whole, what is damaged and why.
#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <new>
#include <sys/stat.h>
#include <unistd.h>

#include "src/checkpoint/crc32c.hpp"
#include "src/checkpoint/file_io.hpp"
#include "src/checkpoint/files.hpp"

namespace cxxrun::checkpoint {
namespace {

struct Opened {
  os::UniqueFd fd;
  Header header;
};

Error damaged(std::string why, int os_errno = 0) {
  return fail(Errc::protocol, std::move(why), os_errno);
}

// Where everybody may write, anybody may leave a file of a later step.
bool is_strangers(struct stat const& file, int directory) {
  struct stat around {};
  return file.st_uid != ::geteuid() && file.st_uid != 0 &&
         (::fstat(directory, &around) != 0 || file.st_uid != around.st_uid);
}

// A file that cannot be opened for want of permission or descriptors is not damaged: passing over it would throw away
// the newest state.
Result<Opened> open_checked(os::UniqueFd fd, int directory, std::uint64_t step) {
  struct stat facts {};
  if (::fstat(fd.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
    return damaged("is not a file");
  }
  if (is_strangers(facts, directory)) {
    return damaged("belongs to uid " + std::to_string(facts.st_uid) + ", neither this user nor the directory's owner");
  }
  auto const size = static_cast<std::uint64_t>(facts.st_size);
  std::vector<std::byte> head(kPreambleBytes);
  auto const begun = read_at(fd.get(), head, 0);
  if (!begun) {
    return damaged("cannot be read", errno);
  }
  head.resize(*begun);
  auto const length = decode_preamble(head);
  if (!length) {
    return length.error();
  }
  head.resize(std::min<std::uint64_t>(*length, size));
  auto const have = read_at(fd.get(), head, 0);
  if (!have) {
    return damaged("cannot be read", errno);
  }
  head.resize(*have);
  auto header = decode(head, size);
  if (!header) {
    return header.error();
  }
  if (header->step != step) {
    return damaged("is of step " + std::to_string(header->step));
  }
  return Opened{std::move(fd), *std::move(header)};
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
      return damaged("blob \"" + entry.name + "\" cannot be read", have ? 0 : errno);
    }
    crc = crc32c(chunk, crc);
    bytes.insert(bytes.end(), chunk.begin(), chunk.end());
  }
  if (crc != entry.crc) {
    return damaged("blob \"" + entry.name + "\" is damaged");
  }
  return bytes;
}

Result<Opened> open_step(int directory, std::uint64_t step, std::string const& path) {
  os::UniqueFd fd(::openat(directory, file_name(step).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat facts {};
  if (!fd && errno == ENOENT) {
    bool const is_there = ::fstatat(directory, file_name(step).c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0;
    return is_there && S_ISLNK(facts.st_mode) ? damaged("is a link to nowhere")
                                              : fail(Errc::not_found, "has gone since it was listed");
  }
  if (!fd && errno == EACCES && ::fstatat(directory, file_name(step).c_str(), &facts, 0) == 0) {
    if (S_ISDIR(facts.st_mode)) {
      return damaged("is not a file");
    }
    if (is_strangers(facts, directory)) {
      return damaged("belongs to another user", EACCES);
    }
  }
  if (!fd && (errno == EIO || errno == ENXIO || errno == ELOOP)) {
    return damaged("cannot be read", errno);
  }
  if (!fd) {
    throw disk_failure(path, errno);
  }
  auto opened = open_checked(std::move(fd), directory, step);
  if (!opened && opened.error().code == Errc::usage) {
    throw Failure(fail(Errc::usage, path + " " + opened.error().context));
  }
  return opened;
}

}  // namespace

void require_model(std::string const& path, Header const& header, std::string const& model) {
  if (header.model != model) {
    throw Failure(fail(Errc::usage, path + " is a checkpoint of model \"" + header.model + "\", not of \"" + model +
                                        "\": name another directory"));
  }
}

Result<Header> Directory::header(std::uint64_t step) const {
  auto opened = open_step(fd_.get(), step, path_of(file_name(step)));
  return opened ? Result<Header>(std::move(opened->header)) : opened.error();
}

Result<Checkpoint::Loaded> Directory::load(std::uint64_t step, std::string const& model) const {
  Checkpoint::Loaded loaded;
  loaded.path = path_of(file_name(step));
  auto const opened = open_step(fd_.get(), step, loaded.path);
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
                                     " bytes, and there is not that much memory: load it where there is"));
  }
  return loaded;
}

}  // namespace cxxrun::checkpoint
