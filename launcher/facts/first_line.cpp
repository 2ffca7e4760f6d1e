#include "launcher/facts/first_line.hpp"

#include <algorithm>
#include <elf.h>

namespace cxxrun::launcher {
namespace {

constexpr std::string_view kBlanks = " \t";

/// Cuts the first word off.
std::string_view take_word(std::string_view& rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(kBlanks), rest.size()));
  auto const word = rest.substr(0, rest.find_first_of(kBlanks));
  rest.remove_prefix(word.size());
  return word;
}

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

}  // namespace

FirstLine read_first_line(std::string_view start) {
  if (!start.starts_with("#!")) {
    return {};
  }
  auto rest = start.substr(2, std::min(start.find('\n'), start.size()) - 2);  // with a '\r' at its end, as the kernel
  FirstLine line;
  line.interpreter = take_word(rest);
  if (line.interpreter != "env" && !line.interpreter.ends_with("/env")) {
    return line;
  }
  auto const whole = trimmed(rest);  // what env is given as one word
  auto word = take_word(rest);
  if (word != "-S" && word != "-vS" && word != "--split-string") {
    line.by_env = whole.starts_with('-') || whole.find('=') != std::string_view::npos ? "" : whole;
    return line;
  }
  auto const plain = [](std::string_view text) { return text.find_first_of("\"'\\$") == std::string_view::npos; };
  do {
    word = take_word(rest);
  } while (plain(word) && word.find('=') != std::string_view::npos && !word.starts_with("PATH=") && word[0] != '-');
  line.by_env = plain(word) && !word.starts_with('-') && word.find('=') == std::string_view::npos ? word : "";
  return line;
}

bool is_executable_format(std::string_view start, unsigned machine) {
  if (start.starts_with("#!")) {
    return !read_first_line(start).interpreter.empty();
  }
  constexpr std::size_t kMachine = 18;  // two bytes, little-endian on both of our processors
  if (!start.starts_with(std::string_view(ELFMAG, SELFMAG)) || start.size() < kMachine + 2) {
    return false;
  }
  auto const byte = [start](std::size_t at) { return static_cast<unsigned char>(start[at]); };
  unsigned const its = byte(kMachine) + 256U * byte(kMachine + 1);
  return its == machine || (machine == EM_X86_64 && its == EM_386) || (machine == EM_AARCH64 && its == EM_ARM);
}

}  // namespace cxxrun::launcher
