#include "launcher/view/relay.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <poll.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "src/base/core/text.hpp"
#include "src/base/os/children.hpp"
#include "src/base/os/spawn.hpp"

namespace cxxrun::launcher::view {
namespace {

constexpr std::size_t kMostLine = std::size_t{256} << 20U;  // as of an answer
constexpr Millis kForEnd{2000};                             // to end by itself, and again after SIGTERM
constexpr Millis kBetweenLooks{5};

}  // namespace

// ---- lines ------------------------------------------------------------------------------------------------------

Result<std::string> LineReader::line(TimePoint until) {
  std::array<char, 65'536> chunk{};
  std::size_t looked_at = 0;
  for (;;) {
    if (auto const end = rest_.find('\n', looked_at); end != std::string::npos) {
      std::string line = rest_.substr(0, end);
      rest_.erase(0, end + 1);
      return line;
    }
    looked_at = rest_.size();
    pollfd waits{fd_, POLLIN, 0};
    int const ready = os::retried([&] { return ::poll(&waits, 1, os::poll_time(until)); });
    if (ready == 0 && Clock::now() < until) {
      continue;
    }
    if (ready == 0) {
      return fail(Errc::timeout, "no answer in time");
    }
    auto const got = os::retried([&] { return ::read(fd_, chunk.data(), chunk.size()); });
    if (got < 0) {
      return fail(Errc::io, "cannot read", errno);
    }
    if (got == 0) {
      return fail(Errc::closed, "what srun has started there has ended");
    }
    rest_.append(chunk.data(), static_cast<std::size_t>(got));
    if (rest_.size() > kMostLine) {
      return fail(Errc::protocol, "the line does not end");
    }
  }
}

Result<std::string> LineReader::answer(TimePoint until) {
  std::string text;
  for (;;) {
    auto const next = line(until);
    if (!next) {
      return next.error();
    }
    if (*next == ".") {
      return text;
    }
    text += *next + "\n";
    if (text.size() > kMostLine) {
      return fail(Errc::protocol, "the answer does not end");
    }
  }
}

bool write_answer(int fd, std::string_view text) {
  std::string lines;
  for (auto const& line : split(text, '\n')) {
    lines += line.empty() ? "" : line + "\n";
  }
  return os::write_all(fd, lines + ".\n");
}

// ---- a child ----------------------------------------------------------------------------------------------------

Result<std::unique_ptr<Program>> Program::start(std::vector<std::string> const& words, Environment const& environment) {
  os::SpawnRequest request;
  request.argv = words;
  request.environment = as_words(environment);
  auto found = os::find_program(words.front(), request.environment);
  if (found.error != 0) {
    return fail(Errc::not_found, "there is no " + words.front() + " in PATH here");
  }
  request.path = std::move(found.path);
  auto in = os::make_pipe();
  auto out = os::make_pipe();
  if (!in.read || !out.read) {
    return fail(Errc::io, "cannot make a pipe for " + words.front(), errno);
  }
  request.in = in.read.get();
  request.out = out.write.get();
  request.err = STDERR_FILENO;
  auto const started = os::spawn(request);
  if (!started.ok()) {
    return fail(Errc::io, os::explain_failed_start(words.front(), started.stage, started.error));
  }
  return std::make_unique<Program>(started.pid, std::move(in.write), std::move(out.read));
}

Program::~Program() {
  in_.reset();
  out_.reset();
  for (int const signal : {0, SIGTERM, SIGKILL}) {  // srun takes its step down at SIGTERM
    ::kill(pid_, signal);
    for (auto const until = Clock::now() + kForEnd; Clock::now() < until;) {
      if (os::reap(pid_)) {
        return;
      }
      std::this_thread::sleep_for(kBetweenLooks);
    }
  }
}

Result<std::string> Program::ask(std::string const& question, TimePoint until) {
  if (!os::write_all(in_.get(), question + "\n")) {
    return fail(Errc::closed, "what srun has started there has ended", errno);
  }
  auto answer = lines_.answer(until);
  if (!answer) {
    in_.reset();  // what comes later would be taken for the answer to the next question
  }
  return answer;
}

}  // namespace cxxrun::launcher::view
