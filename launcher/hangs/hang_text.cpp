#include "launcher/hangs/hang_text.hpp"

#include "src/core/text.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::size_t kLineBytes = 160;

}  // namespace

std::vector<std::string> debugger_command(pid_t pid) {
  return {"gdb", "-nx", "-batch", "-p", std::to_string(pid), "-ex", "thread apply all bt 20"};
}

std::vector<std::string> main_frames(std::string_view written, std::size_t most) {
  std::vector<std::string> frames;
  for (auto const& line : split(written, '\n')) {
    if (line.starts_with("Thread ")) {
      frames.clear();
    } else if (line.starts_with("#") && frames.size() < most) {
      frames.push_back(printable(line, kLineBytes));
    }
  }
  return frames;
}

std::string why_no_stack(std::string_view written) {
  auto const lines = split(trim(written), '\n');
  for (auto const& line : lines) {
    if (line.starts_with("ptrace: ") || line.starts_with("gdb took ")) {
      return printable(line);
    }
  }
  return printable(lines.front());
}

std::vector<std::string> python_frames(std::string_view written, std::size_t most) {
  std::vector<std::string> frames;
  for (auto const& line : split(written, '\n')) {
    if (line.find("hread 0x") != std::string::npos) {  // "Thread 0x…" or "Current thread 0x…"
      frames.clear();
    } else if (line.starts_with("  File ") && frames.size() < most) {
      frames.push_back(printable(trim(line), kLineBytes));
    }
  }
  return frames;
}

std::string hang_file(std::string const& why, std::vector<worker::SeenOperation> const& operations,
                      Stacks const& stacks, TimePoint now) {
  std::string text = why + "\n\nits last collectives, newest first:\n";
  for (auto const& each : operations) {
    text += "  " + worker::describe_entry(each, now) + "\n";
  }
  text += operations.empty() ? "  none\n" : "";
  text += stacks.python.empty() ? "\nits stack:\n" + stacks.native : "\nits Python stack:\n" + stacks.python;
  return text.ends_with('\n') ? text : text + "\n";
}

}  // namespace cxxrun::launcher
