#include "launcher/warm/warm_command.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::size_t kRoom = 1024;  // what ${local_rank} may add, and the name of the zygote
constexpr std::string_view kModule = "-m";
constexpr std::size_t kLongestWord = 128 * 1024 - 1;  // MAX_ARG_STRLEN

/// How many words the option takes; 0: one that changes what is run, or that nobody here knows.
std::size_t words_of(std::string_view option) {
  if (option.starts_with("-W") || option.starts_with("-X")) {
    return option.size() > 2 ? 1 : 2;
  }
  return option.size() > 1 && option.find_first_not_of("uBEIsSObdqvPR", 1) == std::string_view::npos ? 1 : 0;
}

std::string list(std::vector<std::string> const& words) {
  std::string text = std::to_string(words.size());
  for (auto const& word : words) {
    text += '\0' + word;
  }
  return text;
}

}  // namespace

bool is_python(std::string_view program) {
  auto const name = program.substr(program.rfind('/') + 1);
  return name.starts_with("python") && name.find_first_not_of("0123456789.", 6) == std::string_view::npos;
}

Result<WarmCommand> warm_command(std::vector<std::string> const& argv) {
  if (argv.empty() || !is_python(argv.front())) {
    return fail(Errc::usage, "the workers' command begins with '" + printable(argv.empty() ? "" : argv.front(), 60) +
                                 "' and not with Python");
  }
  std::size_t i = 1;
  while (i < argv.size() && argv[i].starts_with('-') && argv[i] != kModule) {
    auto const words = words_of(argv[i]);
    if (words == 0) {
      return fail(Errc::usage, "with " + printable(argv[i], 60) + " Python runs no script");
    }
    i += words;
  }
  bool const module = i + 1 < argv.size() && argv[i] == kModule;
  if (!module && (i >= argv.size() || !argv[i].ends_with(".py"))) {
    return fail(Errc::usage, "the workers' command names neither a script that ends in .py nor a module");
  }
  return WarmCommand{{argv.begin(), argv.begin() + static_cast<std::ptrdiff_t>(i)}, i};
}

std::vector<std::string> zygote_command(WarmCommand const& command, std::vector<std::string> const& argv,
                                        std::size_t bytes) {
  std::size_t room = kRoom;
  for (auto const& word : argv) {
    room += word.size() + 1;
  }
  auto words = command.python;
  words.emplace_back("-c");
  words.push_back("exec(compile(__import__('os').read(0," + std::to_string(bytes) +
                  "),'cxxrun --warm','exec'),{'__name__':'cxxrun_warm'})");
  words.emplace_back(std::min(room, kLongestWord), ' ');
  return words;
}

std::string warm_words(std::vector<std::string> const& argv, std::size_t script, std::vector<unsigned> const& cpus,
                       std::vector<std::string> const& environment) {
  std::vector<std::string> numbers;
  std::transform(cpus.begin(), cpus.end(), std::back_inserter(numbers), [](auto cpu) { return std::to_string(cpu); });
  return list(argv) + '\0' + list({std::to_string(script)}) + '\0' + list(numbers) + '\0' + list(environment);
}

}  // namespace cxxrun::launcher
