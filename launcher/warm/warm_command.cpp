#include "launcher/warm/warm_command.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>

#include "src/base/core/list.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::size_t kRoom = 1024;  // for longer values of ${local_rank}, and for the name of the warm Python
constexpr std::string_view kModule = "-m";
constexpr std::size_t kLongestWord = 128 * 1024 - 1;  // MAX_ARG_STRLEN

constexpr double kWorthWarning = 1;  // seconds
constexpr std::size_t kMostImports = 500;
constexpr std::size_t kMostNamedImports = 3;

/// How many words the option takes; 0 when it changes what Python runs, or is unknown.
std::size_t words_of(std::string_view option) {
  if (option.starts_with("-W") || option.starts_with("-X")) {
    return option.size() > 2 ? 1 : 2;
  }
  return option.size() > 1 && option.find_first_not_of("uBEIsSObdqvPR", 1) == std::string_view::npos ? 1 : 0;
}

std::string counted(std::vector<std::string> const& words) {
  std::string text = std::to_string(words.size());
  for (auto const& word : words) {
    text += '\0' + word;
  }
  return text;
}

bool is_module(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

std::string tenths(double seconds) {
  auto const count = std::lround(seconds * 10);
  return std::to_string(count / 10) + "." + std::to_string(count % 10) + " s";
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
  // With -c Python would import from the working directory first, where others may be able to write.
  words.push_back("import sys;'' in sys.path and sys.path.remove('');exec(compile(__import__('posix').read(0," +
                  std::to_string(bytes) + "),'cxxrun --warm','exec'),{'__name__':'cxxrun_warm'})");
  words.emplace_back(std::min(room, kLongestWord), ' ');
  return words;
}

std::string warm_words(std::vector<std::string> const& argv, std::size_t script, std::vector<unsigned> const& cpus,
                       std::vector<std::string> const& environment) {
  auto const numbers = list_of(cpus, [](auto cpu) { return std::to_string(cpu); });
  return counted(argv) + '\0' + counted({std::to_string(script)}) + '\0' + counted(numbers) + '\0' +
         counted(environment);
}

// ---- Imports of the workers ---------------------------------------------------------------------------------------

std::vector<Import> parse_imports(std::string_view text) {
  std::vector<Import> imports;
  for (auto const& line : split(text, '\n')) {
    auto const words = split(line, ' ');
    if (words.size() != 3 || imports.size() == kMostImports) {
      continue;
    }
    auto const point = words[0].find('.');
    auto const whole = number_in<std::uint32_t>(words[0].substr(0, point));
    auto const millis =
        point == std::string::npos ? std::nullopt : number_in<std::uint32_t>(words[0].substr(point + 1));
    if (whole && millis && *millis < 1000 && is_module(words[1]) && (words[2] == "-" || is_module(words[2]))) {
      imports.push_back({words[1], words[2] == "-" ? "" : words[2], *whole + *millis / 1000.0});
    }
  }
  return imports;
}

std::string modules_of(std::vector<Import> const& imports) {
  return join(list_of(imports, &Import::module), ",");
}

std::vector<Import> without(std::vector<Import> imports, std::string const& module) {
  std::set<std::string> gone{module};  // grows along the chain of importers
  for (std::string next = module; !next.empty();) {
    auto const found = std::ranges::find_if(imports, [&](auto const& each) { return each.module == next; });
    next = found == imports.end() || gone.contains(found->by) ? "" : found->by;
    if (!next.empty()) {
      gone.insert(next);
    }
  }
  std::erase_if(imports, [&](Import const& each) { return gone.contains(each.module); });
  return imports;
}

std::string left_out_line(std::vector<Import> const& imports, bool automatic) {
  double sum = 0;
  std::vector<Import> outer;
  for (auto const& each : imports) {
    if (each.by.empty()) {
      sum += each.seconds;
      outer.push_back(each);
    }
  }
  if (sum < kWorthWarning) {
    return {};
  }
  std::ranges::stable_sort(outer, [](auto const& a, auto const& b) { return a.seconds > b.seconds; });
  auto names = list_of(outer, [](Import const& each) { return each.module + " " + tenths(each.seconds); });
  return "--warm: the workers imported " + tenths(sum) +
         " of modules that --warm did not: " + join_first(kMostNamedImports, std::move(names)) +
         (automatic ? "" : "; name them in --warm=MODULES, or use --warm=auto");
}

}  // namespace cxxrun::launcher
