#include "launcher/facts/interpreter.hpp"

#include <algorithm>
#include <array>
#include <elf.h>

namespace cxxrun::launcher {

// ---- the first line of a file

namespace {

constexpr std::string_view kBlanks = " \t";

/// Removes the first word.
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
  // Keeps a trailing '\r', as the kernel does.
  auto rest = start.substr(2, std::min(start.find('\n'), start.size()) - 2);
  FirstLine line;
  line.interpreter = take_word(rest);
  if (line.interpreter != "env" && !line.interpreter.ends_with("/env")) {
    return line;
  }
  auto const whole = trimmed(rest);  // env gets all of it as one argument
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
  constexpr std::size_t kMachine = 18;  // e_machine: two bytes, little-endian on both supported processors
  if (!start.starts_with(std::string_view(ELFMAG, SELFMAG)) || start.size() < kMachine + 2) {
    return false;
  }
  auto const byte = [start](std::size_t at) { return static_cast<unsigned char>(start[at]); };
  unsigned const its = byte(kMachine) + 256U * byte(kMachine + 1);
  return its == machine || (machine == EM_X86_64 && its == EM_386) || (machine == EM_AARCH64 && its == EM_ARM);
}

// ---- programs on standard input

namespace {

/// The options, as letters, that decide where the program comes from.
struct Interpreter {
  std::string_view name;      ///< digits and dots may follow: python3.11
  std::string_view program;   ///< the program is given as text or module, or only information is printed
  std::string_view argument;  ///< takes an argument, in the same word or the next one
  std::string_view input;     ///< reads the program from standard input
  std::string_view long_argument;
};

constexpr std::array kInterpreters{
    Interpreter{"python", "cmVh", "WX", "", "--check-hash-based-pycs"},
    Interpreter{"pypy", "cmVh", "WX", "", ""},
    Interpreter{"bash", "c", "oO", "s", "--rcfile"},
    Interpreter{"sh", "c", "o", "s", ""},
    Interpreter{"dash", "c", "o", "s", ""},
    Interpreter{"zsh", "c", "o", "s", ""},
    Interpreter{"ksh", "c", "o", "s", ""},
    Interpreter{"perl", "eEvVh", "IMm", "", ""},
    Interpreter{"ruby", "evh", "IrC", "", ""},
};

Interpreter const* interpreter_called(std::string_view path) {
  auto const name = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  auto const stem = name.substr(0, name.find_last_not_of("0123456789.") + 1);
  auto const* const found =
      std::ranges::find_if(kInterpreters, [stem](Interpreter const& each) { return each.name == stem; });
  return found == kInterpreters.end() ? nullptr : found;
}

bool is_standard_input(std::string_view word) {
  return word == "-" || word == "/dev/stdin" || word == "/dev/fd/0" || word == "/proc/self/fd/0";
}

/// Whether `python3 -m module` is a debugger that reads commands: one that is not given a first command.
bool is_debugger(std::string_view module, std::vector<std::string> const& argv, std::size_t next) {
  return (module == "pdb" || module == "ipdb") && (next >= argv.size() || argv[next] != "-c");
}

bool has(std::string_view letters, char letter) {
  return letters.find(letter) != std::string_view::npos;
}

}  // namespace

bool runs_what_it_reads(std::vector<std::string> const& argv) {
  auto const* const interpreter = argv.empty() ? nullptr : interpreter_called(argv.front());
  if (interpreter == nullptr) {
    return false;
  }
  for (std::size_t i = 1; i < argv.size(); ++i) {
    std::string_view const word = argv[i];
    if (word == "--") {
      return i + 1 == argv.size() || is_standard_input(argv[i + 1]);
    }
    if (word.size() < 2 || (word.front() != '-' && word.front() != '+')) {
      return is_standard_input(word);
    }
    if (word.starts_with("--")) {
      if (word == "--version" || word == "--help") {
        return false;
      }
      i += word == interpreter->long_argument ? 1 : 0;
      continue;
    }
    for (std::size_t at = 1; at < word.size(); ++at) {
      if (word[at] == 'm' && has(interpreter->program, 'm')) {
        bool const attached = at + 1 < word.size();
        return (attached || i + 1 < argv.size()) &&
               is_debugger(attached ? word.substr(at + 1) : argv[i + 1], argv, i + (attached ? 1 : 2));
      }
      if (has(interpreter->program, word[at])) {
        return false;
      }
      if (has(interpreter->input, word[at])) {
        return true;
      }
      if (has(interpreter->argument, word[at])) {
        i += at + 1 == word.size() ? 1 : 0;
        break;
      }
    }
  }
  return true;
}

}  // namespace cxxrun::launcher
