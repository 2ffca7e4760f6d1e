// LogTail: reads the ends of a worker's log files, and what has been written to them since. Shell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/live/question.hpp"

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

}  // namespace cxxrun::launcher
