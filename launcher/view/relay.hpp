// Relay: a cxxrunctl that srun has started inside a job, and another program whose output is read. Shell.
//
// Both sides speak in lines over the relay's standard streams, since srun passes on whole lines alone:
//
//   relay → us   at its start: the answers to `who` of the jobs that it finds, a line each, and a line "."
//   us → relay   "N QUESTION", of the job in line N, from 0
//   relay → us   the lines of the answer, and a line "."; to `follow` those that have come, and when it is asked again
//                the next ones
//
// It ends with its input, and after a while without a question: srun may have been killed.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "cxxrun/error.hpp"
#include "launcher/facts/environment.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::launcher::view {

/// Text from a descriptor, with a time limit. Errors: closed (it ends), timeout, protocol (too long), io.
class LineReader {
 public:
  explicit LineReader(int fd) : fd_(fd) {}
  /// The next line, without its end.
  [[nodiscard]] Result<std::string> line(TimePoint until);
  /// The lines before the next line ".".
  [[nodiscard]] Result<std::string> answer(TimePoint until);

 private:
  int fd_;
  std::string rest_;  ///< read, but not returned yet
};
/// Writes the lines of a text, and a line ".". False if nobody reads.
[[nodiscard]] bool write_answer(int fd, std::string_view text);

/// A child that reads from us and that we read from. Its messages go where ours go.
class Program {
 public:
  /// Errors: not_found (it is not in PATH), io.
  [[nodiscard]] static Result<std::unique_ptr<Program>> start(std::vector<std::string> const& words,
                                                              Environment const& environment);
  Program(pid_t pid, os::UniqueFd in, os::UniqueFd out)
      : pid_(pid), in_(std::move(in)), out_(std::move(out)), lines_(out_.get()) {}
  Program(Program const&) = delete;
  Program& operator=(Program const&) = delete;
  /// Its input ends. If it then goes on, it is killed.
  ~Program();

  [[nodiscard]] LineReader& lines() { return lines_; }
  /// Asks a question, and returns the answer. Errors: closed (it has ended), and those of LineReader.
  [[nodiscard]] Result<std::string> ask(std::string const& question, TimePoint until);

 private:
  pid_t pid_;
  os::UniqueFd in_;
  os::UniqueFd out_;
  LineReader lines_;
};

}  // namespace cxxrun::launcher::view
