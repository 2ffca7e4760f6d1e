#include "launcher/logs/log_tail.hpp"

#include <array>
#include <iterator>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/os/fd.hpp"
#include "src/base/os/folder.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::array kStreams{"stdout.log", "stderr.log"};
constexpr std::size_t kMostParts = 16;  // full files that are looked at

struct OpenPart {
  LogPart part;
  os::UniqueFd file;
};

std::optional<OpenPart> open_part(os::Folder const& folder, std::string const& name) {
  auto file = folder.open_trusted(name);
  struct stat facts {};
  if (!file || fstat(file.get(), &facts) != 0) {
    return std::nullopt;
  }
  return OpenPart{{facts.st_ino, static_cast<std::uint64_t>(facts.st_size)}, std::move(file)};
}

/// A stream's files, oldest first, from the one with `id` on; without an id the current one alone. The second: whether
/// that one is among them. If it is not, the files are the newest ones.
std::pair<std::vector<OpenPart>, bool> open_parts(std::string const& dir, std::string const& name, std::uint64_t id) {
  std::vector<OpenPart> parts;  // newest first
  auto const folder = os::Folder::of_ours(dir);
  auto current = folder ? open_part(folder, name) : std::nullopt;
  if (!current) {
    return {};
  }
  parts.push_back(*std::move(current));
  if (id != 0 && parts.back().part.id != id) {
    for (auto const& full : full_files(folder.names().value_or(std::vector<std::string>()), name)) {
      auto part = parts.size() <= kMostParts ? open_part(folder, full) : std::nullopt;
      if (!part) {
        break;
      }
      parts.push_back(*std::move(part));
      if (parts.back().part.id == id) {
        break;
      }
    }
  }
  bool const found = parts.back().part.id == id;
  std::ranges::reverse(parts);
  return {std::move(parts), found};
}

std::string read_span(OpenPart const& part, std::uint64_t from, std::uint64_t to) {
  std::string text(static_cast<std::size_t>(to - from), '\0');
  auto const got =
      os::retried([&] { return pread(part.file.get(), text.data(), text.size(), static_cast<off_t>(from)); });
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

/// `place`: of the stream in `parts`; it is moved behind what is read.
LogTails::Stream read_stream(std::vector<OpenPart> const& parts, live::LogPlace::File& place, std::uint64_t most,
                             bool ended) {
  auto const sizes = list_of(parts, &OpenPart::part);
  auto const spans = spans_behind(sizes, place, most);
  LogTails::Stream stream;
  stream.left_out = spans.left_out;
  place = {sizes.back().id, spans.of_parts.back().first};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto const bytes = read_span(parts[i], spans.of_parts[i].first, spans.of_parts[i].second);
    append_part(stream.text, bytes);
    place.offset += i + 1 == parts.size() ? bytes.size() : 0;
  }
  if (stream.left_out > 0) {
    stream.left_out += cut_begun_line(stream.text);
  }
  if (!ended) {
    place.offset -= std::min<std::uint64_t>(place.offset, cut_open_line(stream.text, static_cast<std::size_t>(most)));
  }
  return stream;
}

}  // namespace

LogTails read_log_since(std::string const& dir, std::string const& older_dir, live::LogPlace const& place,
                        std::uint64_t most, bool ended) {
  LogTails tails;
  tails.place = place;
  for (std::size_t i = 0; i < kStreams.size(); ++i) {
    std::string const name = kStreams.at(i);
    auto& at = tails.place.files.at(i);
    auto [parts, found] = open_parts(dir, name, at.id);
    if (!older_dir.empty()) {
      auto [older, is_older] = open_parts(older_dir, name, at.id);
      if (is_older) {
        parts.insert(parts.begin(), std::make_move_iterator(older.begin()), std::make_move_iterator(older.end()));
        found = true;
      }
    }
    if (!parts.empty()) {
      tails.streams.push_back(read_stream(parts, at, most, ended));
      tails.streams.back().file = dir + "/" + name;
      tails.streams.back().goes_on = found;
    }
  }
  return tails;
}

LogTails read_log_ends(std::string const& dir, std::uint64_t most) {
  return read_log_since(dir, "", {}, most, true);
}

}  // namespace cxxrun::launcher
