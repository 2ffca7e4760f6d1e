#include "launcher/hangs/hang_text.hpp"

#include "src/core/text.hpp"

namespace cxxrun::launcher {

std::vector<std::string> debugger_command(pid_t pid) {
  return {"gdb", "-nx", "-batch", "-p", std::to_string(pid), "-ex", "thread apply all bt 20"};
}

std::vector<std::string> main_frames(std::string_view written, std::size_t most) {
  constexpr std::size_t kLineBytes = 160;
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

std::string hang_file(std::string const& why, std::vector<worker::SeenOperation> const& operations,
                      std::string_view stack, TimePoint now) {
  std::string text = why + "\n\nits last collectives, newest first:\n";
  for (auto const& each : operations) {
    text += "  " + worker::describe_entry(each, now) + "\n";
  }
  text += operations.empty() ? "  none\n" : "";
  text += "\nits stack:\n";
  text += stack;
  return text.ends_with('\n') ? text : text + "\n";
}

}  // namespace cxxrun::launcher
