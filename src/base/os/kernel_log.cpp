#include "src/base/os/kernel_log.hpp"

#include <array>
#include <cerrno>
#include <fcntl.h>

#include "src/base/os/fd.hpp"

namespace cxxrun::os {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20U;

}  // namespace

KernelLog::KernelLog(char const* path) : file_(::open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  if (file_ && ::lseek(file_.get(), 0, SEEK_END) < 0) {
    file_.reset();
  }
}

std::string KernelLog::read_new() {
  std::string text;
  std::array<char, 8192> record{};  // a read returns one record, and fails if it does not fit
  while (file_ && text.size() < kMostBytes) {
    auto const got = retried([&] { return ::read(file_.get(), record.data(), record.size()); });
    if (got > 0) {
      text.append(record.data(), static_cast<std::size_t>(got));
    } else if (got == 0 || errno != EPIPE) {  // EPIPE: records were overwritten; the next read goes on
      break;
    }
  }
  return text;
}

}  // namespace cxxrun::os
