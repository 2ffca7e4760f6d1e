#include "launcher/hangs/hang_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <system_error>

#include "src/base/core/list.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::size_t kLineBytes = 160;
constexpr std::size_t kPlaceBytes = 300;

struct Place {
  std::string source;  ///< "train.py:33"; "" = not known
  std::string function;
};

std::string_view between(std::string_view text, std::string_view begin, std::string_view end) {
  auto const at = text.find(begin);
  auto const from = at == text.npos ? text.size() : at + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

/// File "train.py", line 33 in load
Place python_place(std::string_view frame) {
  std::string const file(between(frame, "File \"", "\""));
  return {file + ":" + std::string(between(frame, "\", line ", " ")), std::string(between(frame, " in ", "\n"))};
}

/// #1  0x000055 in load (path="a") at train.cpp:12
Place native_place(std::string_view frame) {
  auto const at = frame.rfind(") at ");
  auto const name = frame.find(" in ") == frame.npos ? between(frame, "  ", " (") : between(frame, " in ", " (");
  return {at == frame.npos ? "" : std::string(frame.substr(at + 5)), std::string(name)};
}

/// Whether the source belongs to Python, its packages, or the C library, whose paths begin with "../".
bool of_library(std::string_view source) {
  static constexpr std::array<std::string_view, 5> kSigns{"/lib/python", "/lib64/python", "-packages/", "<frozen ",
                                                          "../"};
  return source.empty() || std::ranges::any_of(kSigns, [&](auto sign) { return source.find(sign) != source.npos; });
}

/// These frames say nothing, and there are two for each nested module: they would push out the program's own.
constexpr std::string_view kModuleCalls = "torch/nn/modules/module.py\"";

/// The frames of the main thread in the debugger's output: those of the last thread.
std::vector<std::string> native_frames(std::string_view written) {
  std::vector<std::string> frames;
  for (auto const& line : split(written, '\n')) {
    if (line.starts_with("Thread ")) {
      frames.clear();
    } else if (line.starts_with("#")) {
      frames.push_back(line);
    }
  }
  return frames;
}

/// The same in faulthandler's output.
std::vector<std::string> faulthandler_frames(std::string_view written) {
  std::vector<std::string> frames;
  for (auto const& line : split(written, '\n')) {
    if (line.find("hread 0x") != std::string::npos) {  // "Thread 0x…" or "Current thread 0x…"
      frames.clear();
    } else if (line.starts_with("  File ")) {
      frames.emplace_back(trim(line));
    }
  }
  return frames;
}

std::vector<std::string> shown(std::vector<std::string> frames, std::size_t most) {
  frames.resize(std::min(frames.size(), most));
  for (auto& frame : frames) {
    frame = printable(frame, kLineBytes);
  }
  return frames;
}

}  // namespace

std::vector<std::string> debugger_command(pid_t pid, bool alike) {
  std::vector<std::string> words{"gdb", "-nx", "-batch", "-p", std::to_string(pid)};
  if (alike) {
    words.insert(words.end(), {"-ex", "set print address off", "-ex", "set print frame-arguments none"});
  }
  words.insert(words.end(), {"-ex", "thread apply all bt 20"});
  return words;
}

std::vector<std::string> main_frames(std::string_view written, std::size_t most) {
  return shown(native_frames(written), most);
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

int stack_signal(std::string_view file) {
  constexpr std::string_view kBegin = "/memfd:cxxrun-stacks-";
  int signal = 0;
  if (!file.starts_with(kBegin)) {
    return 0;
  }
  auto const number = file.substr(kBegin.size());
  auto const read = std::from_chars(number.data(), number.data() + number.size(), signal);
  return read.ec == std::errc() && signal > 0 && signal <= SIGRTMAX ? signal : 0;
}

std::vector<std::string> python_frames(std::string_view written, std::size_t most) {
  auto frames = faulthandler_frames(written);
  std::erase_if(frames, [](std::string const& frame) { return frame.find(kModuleCalls) != std::string::npos; });
  return shown(std::move(frames), most);
}

std::string place_in(Stacks const& stacks) {
  auto places = list_of(faulthandler_frames(stacks.python), python_place);
  if (places.empty()) {
    places = list_of(native_frames(stacks.native), native_place);
  }
  if (places.empty()) {
    return {};
  }
  auto const own = std::ranges::find_if(places, [](auto const& each) { return !of_library(each.source); });
  auto const& [source, function] = own == places.end() ? places.front() : *own;
  return printable(source.empty() ? function : source + (function.empty() ? "" : " in " + function), kPlaceBytes);
}

std::string place_and_frames(std::string const& written, std::size_t most) {
  std::vector<std::string> frames;
  for (auto const& frame : python_frames(written, most)) {
    auto const [source, function] = python_place(frame);
    frames.push_back(source.substr(source.rfind('/') + 1) + " in " + function);
  }
  auto const place = place_in({.python = written, .native = ""});
  return frames.empty() ? place : place + " (" + join(frames, " < ") + ")";
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

std::string ras_section(std::string const& address, std::string_view answer) {
  for (std::string_view const reply : {"SERVER PROTOCOL ", "OK"}) {
    if (answer.starts_with(reply)) {
      answer.remove_prefix(std::min(answer.find('\n'), answer.size() - 1) + 1);
    }
  }
  auto const text = printable_lines(trim(answer));
  return "\nwhat NCCL says (RAS, " + printable(address) + "):\n" + (text.empty() ? "nothing" : text) + "\n";
}

}  // namespace cxxrun::launcher
