// Reading: what is whole, what is damaged and why.
#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <new>
#include <sys/stat.h>

#include "src/runtime/checkpoint/crc32c.hpp"
#include "src/runtime/checkpoint/file_io.hpp"
#include "src/runtime/checkpoint/files.hpp"

namespace cxxrun::checkpoint {
namespace {

Error bad_file(std::string why, int os_errno = 0) {
  return fail(Errc::protocol, std::move(why), os_errno);
}

// A file that cannot be opened for want of permission or descriptors is not damaged: passing over it would throw away
// the newest state.
Result<Opened> open_checked(os::UniqueFd fd, struct stat const& facts, std::uint64_t step) {
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
    return fail(Errc::not_found, "has gone since it was listed");
  }
  bool const seen = ::fstatat(folder_.get(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0;
  if (seen && S_ISDIR(facts.st_mode)) {
    return bad_file("is not a file");
  }
  if (why == ELOOP) {
    return bad_file("is a link or no file, and may lead anywhere");
  }
  if (why == EACCES && seen && is_strangers(facts)) {
    return bad_file("belongs to another user", EACCES);
  }
  if (why == EIO || why == ENXIO) {
    return bad_file("cannot be read", why);
  }
  throw disk_failure(path_of(name), why);
}

Result<Opened> Directory::open_whole(std::uint64_t step) const {
  struct stat facts {};
  auto file = open_step(file_name(step), facts);
  auto opened = file ? open_checked(*std::move(file), facts, step) : Result<Opened>(file.error());
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
                                     " bytes, and there is not that much memory: load it where there is"));
  }
  return loaded;
}

}  // namespace cxxrun::checkpoint
