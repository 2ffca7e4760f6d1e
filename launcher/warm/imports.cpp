#include "launcher/warm/imports.hpp"

#include <algorithm>
#include <cstddef>
#include <set>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

constexpr double kMuch = 1;  // seconds
constexpr std::size_t kMost = 500;
constexpr std::size_t kNamed = 3;

bool is_module(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

std::string tenths(double seconds) {
  auto const count = static_cast<long>(seconds * 10 + 0.5);
  return std::to_string(count / 10) + "." + std::to_string(count % 10) + " s";
}

}  // namespace

std::vector<Import> parse_imports(std::string_view text) {
  std::vector<Import> imports;
  for (auto const& line : split(text, '\n')) {
    auto const words = split(line, ' ');
    if (words.size() != 3 || imports.size() == kMost) {
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
  std::vector<std::string> names;
  names.reserve(imports.size());
  for (auto const& each : imports) {
    names.push_back(each.module);
  }
  return join(names, ",");
}

std::vector<Import> without(std::vector<Import> imports, std::string const& module) {
  std::set<std::string> gone{module};
  for (std::string next = module; !next.empty();) {
    auto const found =
        std::find_if(imports.begin(), imports.end(), [&](auto const& each) { return each.module == next; });
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
  if (sum < kMuch) {
    return {};
  }
  std::stable_sort(outer.begin(), outer.end(), [](auto const& a, auto const& b) { return a.seconds > b.seconds; });
  std::vector<std::string> names;
  names.reserve(outer.size());
  for (auto const& each : outer) {
    names.push_back(each.module + " " + tenths(each.seconds));
  }
  return "--warm: the workers imported " + tenths(sum) +
         " of modules that --warm did not: " + join_first(kNamed, std::move(names)) +
         (automatic ? "" : "; name them in --warm=MODULES, or use --warm=auto");
}

}  // namespace cxxrun::launcher
