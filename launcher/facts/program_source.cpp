#include "launcher/facts/program_source.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace cxxrun::launcher {
namespace {

/// The letters among its options that matter here.
struct Interpreter {
  std::string_view name;      ///< digits and dots may follow: python3.11
  std::string_view program;   ///< what follows is the program, or the question, and not a file
  std::string_view argument;  ///< an argument follows, in the same word or the next one
  std::string_view input;     ///< the program is on standard input
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
  auto const* const found = std::find_if(kInterpreters.begin(), kInterpreters.end(),
                                         [stem](Interpreter const& each) { return each.name == stem; });
  return found == kInterpreters.end() ? nullptr : found;
}

bool is_standard_input(std::string_view word) {
  return word == "-" || word == "/dev/stdin" || word == "/dev/fd/0" || word == "/proc/self/fd/0";
}

/// Of python3 -m, without a command that the debugger begins with.
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
