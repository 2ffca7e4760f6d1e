#include "launcher/hangs/python_stack.hpp"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "launcher/hangs/hang_text.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/children.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::launcher {
namespace {

constexpr Millis kPatience{2000};
constexpr Millis kLook{50};  // the answer is complete once the file has not grown for this long
constexpr std::size_t kMostBytes = std::size_t{256} * 1024;

/// The file to which the program writes its stacks, and the signal that makes it do so.
struct StackFile {
  os::UniqueFd file;
  int signal = 0;
};

StackFile open_stack_file(pid_t pid) {
  std::error_code error;
  std::filesystem::directory_iterator each("/proc/" + std::to_string(pid) + "/fd", error);
  for (; !error && each != std::filesystem::directory_iterator(); each.increment(error)) {
    std::error_code gone;
    int const signal = stack_signal(std::filesystem::read_symlink(each->path(), gone).string());
    if (gone || signal == 0 || !os::catches_signal(pid, signal)) {
      continue;
    }
    os::UniqueFd file(open(each->path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat what {};
    if (file && fstat(file.get(), &what) == 0 && S_ISREG(what.st_mode)) {
      return {std::move(file), signal};
    }
  }
  return {};
}

off_t size_of(os::UniqueFd const& file) {
  struct stat what {};
  return fstat(file.get(), &what) == 0 ? what.st_size : 0;
}

std::string read_from(os::UniqueFd const& file, off_t from, off_t to) {
  std::string text(std::min(static_cast<std::size_t>(std::max<off_t>(to - from, 0)), kMostBytes), '\0');
  ssize_t const n = pread(file.get(), text.data(), text.size(), from);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  return text;
}

/// One request. A stopped process cannot answer: it is continued until it has answered, and then stopped again.
class StackRequest : public std::enable_shared_from_this<StackRequest> {
 public:
  StackRequest(boost::asio::io_context& io, pid_t pid, os::HeldProcess held, StackFile file,
               std::function<void(PythonAnswer const&)> done)
      : pid_(pid), held_(std::move(held)), file_(std::move(file)), timer_(io), done_(std::move(done)) {}

  void begin() {
    from_ = seen_ = size_of(file_.file);
    auto const stat = os::read_stat(pid_);
    stopped_ = stat && stat->state == 'T';
    // Signal the main thread: if another thread answers, a running main thread has moved on by then.
    if (!held_.runs() || syscall(SYS_tgkill, pid_, pid_, file_.signal) != 0) {
      held_.send(file_.signal);
    }
    if (stopped_) {
      held_.send(SIGCONT);
    }
    look_later();
  }

 private:
  void look_later() {
    timer_.after(kLook, [self = shared_from_this()] { self->look(); });
  }

  void look() {
    off_t const size = size_of(file_.file);
    bool const late = Clock::now() >= until_;
    bool const whole = size > from_ && size == std::exchange(seen_, size);
    if (whole || late) {
      if (stopped_) {
        held_.send(SIGSTOP);  // through the handle: its pid may belong to another process by now
      }
      return done_({read_from(file_.file, from_, size), stopped_});
    }
    look_later();
  }

  pid_t pid_;
  os::HeldProcess held_;
  StackFile file_;
  off_t from_ = 0;
  off_t seen_ = 0;
  bool stopped_ = false;
  TimePoint until_ = Clock::now() + kPatience;
  os::Timer timer_;
  std::function<void(PythonAnswer const&)> done_;
};

}  // namespace

bool answers_python(pid_t pid) {
  if (open_stack_file(pid).file) {
    return true;
  }
  auto const children = os::children_of(pid);
  return std::ranges::any_of(children, answers_python);
}

void ask_python(boost::asio::io_context& io, pid_t pid, std::function<void(PythonAnswer const&)> done) {
  auto held = os::HeldProcess::hold(pid);  // first, so that everything below is about the same process
  auto found = held ? open_stack_file(pid) : StackFile();
  if (!found.file) {
    boost::asio::post(io, [done = std::move(done)] { done({}); });
    return;
  }
  std::make_shared<StackRequest>(io, pid, *std::move(held), std::move(found), std::move(done))->begin();
}

}  // namespace cxxrun::launcher
