// LogTail: reads the ends of a worker's log files, and what has been written to them since. Shell.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/live/question.hpp"
#include "src/base/core/list.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher {

struct LogTails {
  struct Stream {
    std::string file;  ///< the current one
    std::string text;
    std::uint64_t left_out = 0;  ///< bytes before `text` that are not read
    bool goes_on = false;        ///< the file of the place from which to go on was found
  };
  std::vector<Stream> streams;  ///< those of stdout and stderr that go to files
  live::LogPlace place;         ///< behind `text`
};

/// The last `most` bytes of each file in `dir`, a worker's directory, from the beginning of a line on. Blocks as the
/// file system does.
[[nodiscard]] LogTails read_log_ends(std::string const& dir, std::uint64_t most);
/// The lines behind `place`, which is in `dir` or in `older_dir`, that of an earlier generation (or ""). Lines that are
/// not complete come only when the worker has `ended`.
[[nodiscard]] LogTails read_log_since(std::string const& dir, std::string const& older_dir, live::LogPlace const& place,
                                      std::uint64_t most, bool ended);

// ---- which bytes somebody is told who follows these files: pure ---------------------------------------------------

/// Among the files of a directory, the full ones of the stream whose current file has that name: newest first.
[[nodiscard]] inline std::vector<std::string> full_files(std::vector<std::string> const& files,
                                                         std::string const& name) {
  std::vector<std::pair<std::uint64_t, std::string>> full;
  for (auto const& file : files) {
    auto const number = file.starts_with(name + ".")
                            ? number_in<std::uint64_t>(std::string_view(file).substr(name.size() + 1))
                            : std::nullopt;
    if (number) {
      full.emplace_back(*number, file);
    }
  }
  std::sort(full.rbegin(), full.rend());
  return list_of(full, [](auto const& each) { return each.second; });
}

/// One of the files that a stream was written to, one after the other.
struct LogPart {
  std::uint64_t id = 0;
  std::uint64_t size = 0;
};
/// The bytes [from, to) of each part. `left_out`: so many before them have not been read, and are not going to be.
struct LogSpans {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> of_parts;
  std::uint64_t left_out = 0;
};
/// The newest `most` bytes behind `after`. A file that has become shorter is another one.
[[nodiscard]] inline LogSpans spans_behind(std::vector<LogPart> const& parts, live::LogPlace::File const& after,
                                           std::uint64_t most) {
  LogSpans spans;
  std::uint64_t unread = 0;
  for (auto const& part : parts) {
    auto const from = part.id == after.id && after.offset <= part.size ? after.offset : 0;
    spans.of_parts.emplace_back(from, part.size);
    unread += part.size - from;
  }
  spans.left_out = unread - std::min(unread, most);
  auto skip = spans.left_out;
  for (auto& [from, to] : spans.of_parts) {
    auto const skipped = std::min(skip, to - from);
    from += skipped;
    skip -= skipped;
  }
  return spans;
}

/// Adds the bytes of the next part; a line that has ended with its file is a line.
inline void append_part(std::string& text, std::string_view part) {
  text += text.empty() || text.back() == '\n' ? "" : "\n";
  text += part;
}

/// Takes away the begun line in front of text that something was left out before. Returns how many bytes.
inline std::size_t cut_begun_line(std::string& text) {
  auto const line = text.find('\n');
  auto const cut = line == std::string::npos ? 0 : line + 1;
  text.erase(0, cut);
  return cut;
}
/// Takes away a last line that is not complete, unless it alone has `most` bytes. Returns how many bytes.
inline std::size_t cut_open_line(std::string& text, std::size_t most) {
  auto const line = text.rfind('\n');
  auto const keep = line != std::string::npos ? line + 1 : text.size() >= most ? text.size() : 0;
  auto const cut = text.size() - keep;
  text.resize(keep);
  return cut;
}

}  // namespace cxxrun::launcher
