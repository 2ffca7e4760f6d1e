#include "train/options.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <type_traits>

namespace train {
namespace {

using cxxrun::Errc;
using cxxrun::fail;
using cxxrun::Result;

struct Name {
  std::string_view name, value, meaning;
};
constexpr Name kNames[] = {
    {"--steps", "N", "steps altogether, those before a restart included (400)"},
    {"--batch", "N", "samples per rank and step (8)"},
    {"--lr", "X", "learning rate (0.006)"},
    {"--seed", "N", "of the initial parameters and the order of samples (1)"},
    {"--checkpoint-dir", "DIR", "saves there, and goes on from the latest checkpoint in it"},
    {"--save-every", "N", "steps between two checkpoints (20)"},
    {"--refuse-damaged", "", "do not begin anew where checkpoints are, but all are damaged"},
    {"--curve", "FILE", "CSV of step,loss,world,restart"},
    {"--text", "FILE", "what to learn (Romeo and Juliet, Act I, is built in)"},
    {"--quiet", "", "only the last line"},
    {"--help", "", "this"},
};

template <class T>
Result<void> number(Name const& option, std::string_view text, T lowest, T& value) {
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= lowest) ||
      !std::isfinite(static_cast<double>(value))) {
    std::string const wanted = std::is_floating_point_v<T> ? "a positive number" : "a whole number";
    return fail(Errc::usage, std::string(option.name) + " " + std::string(text) + ": give " + wanted +
                                 (lowest == T(1) ? " from 1" : ""));
  }
  return {};
}

Result<void> assign(Options& options, Name const& option, std::string_view value) {
  std::string_view const name = option.name;
  if (name == "--steps") {
    return number<std::uint64_t>(option, value, 1, options.steps);
  }
  if (name == "--batch") {
    return number<std::size_t>(option, value, 1, options.batch);
  }
  if (name == "--lr") {
    return number<float>(option, value, 1e-30F, options.rate);
  }
  if (name == "--seed") {
    return number<std::uint64_t>(option, value, 0, options.seed);
  }
  if (name == "--save-every") {
    return number<std::uint64_t>(option, value, 1, options.save_every);
  }
  if (option.value.empty()) {
    (name == "--quiet" ? options.quiet : name == "--help" ? options.help : options.refuse_damaged) = true;
    return {};
  }
  if (value.empty()) {
    return fail(Errc::usage, std::string(name) + " '': give a path");
  }
  (name == "--curve" ? options.curve : name == "--text" ? options.text : options.checkpoint_directory) = value;
  return {};
}

}  // namespace

Result<Options> parse(std::span<char const* const> arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string_view const argument = arguments[i];
    auto const equals = argument.find('=');
    std::string_view const given = argument.substr(0, equals);
    Name const* option = nullptr;
    for (Name const& known : kNames) {
      option = known.name == given ? &known : option;
    }
    if (option == nullptr) {
      return fail(Errc::usage, "unknown argument " + std::string(argument) + "; --help lists the options");
    }
    std::string_view value;
    if (option->value.empty() ? equals != std::string_view::npos
                              : equals == std::string_view::npos && i + 1 == arguments.size()) {
      return fail(Errc::usage, std::string(given) + (option->value.empty() ? " takes no value" : " needs a value"));
    }
    if (!option->value.empty()) {
      value = equals == std::string_view::npos ? std::string_view(arguments[++i]) : argument.substr(equals + 1);
    }
    if (auto assigned = assign(options, *option, value); !assigned) {
      return assigned.error();
    }
  }
  return options;
}

std::string usage(std::string const& program) {
  std::string text =
      "usage: " + program + " [OPTION…]           alone, or one of many: cxxrun --standalone --nproc-per-node 4 " +
      program +
      " …\n\n"
      "Trains a small character-level model on all ranks. Options, and what they are without being given:\n";
  for (Name const& option : kNames) {
    std::string line = "  " + std::string(option.name) + " " + std::string(option.value);
    line.resize(std::max<std::size_t>(line.size() + 1, 26), ' ');
    text += line + std::string(option.meaning) + "\n";
  }
  return text +
         "\nExit codes: 0 trained; 1 something has to be changed, as the line on stderr says; 75 another rank failed, "
         "and a\nrestart from the checkpoint goes on. Killed at any moment and restarted with as many ranks, it ends "
         "with the same\nparameters, bit for bit.\n";
}

}  // namespace train
