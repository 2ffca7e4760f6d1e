#include "launcher/doctor/look.hpp"

#include <functional>
#include <memory>
#include <utility>

#include "src/base/core/text.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::launcher::doctor {
namespace {

/// A child, what it asks about, and for how long.
struct Asked {
  os::LimitedChild child;
  std::string about;
  Millis limit;
};

void take_lines(std::string const& said, Facts& facts) {
  for (auto const& line : split(said, '\n')) {
    if (auto const at = line.find('='); at != std::string::npos) {
      facts[line.substr(0, at)] = line.substr(at + 1);
    }
  }
}

}  // namespace

void tell(Say const& say, std::string const& key, std::string const& value) {
  say(key + "=" + replace_all(value, "\n", " ") + "\n");
}

std::function<Facts()> start_looking(Wanted const& wanted, Environment const& environment,
                                     os::Caretaker const& caretaker) {
  TimePoint const begin = Clock::now();
  auto const asked = std::make_shared<std::vector<Asked>>();
  auto const ask = [&asked](char const* about, Millis limit, std::function<void(Say const&)> const& work) {
    asked->push_back({os::LimitedChild(work), about, limit});
  };
  ask("name", Millis{15'000}, [&](Say const& say) { look_at_names(wanted, say); });
  ask("gpu", Millis{10'000}, [](Say const& say) { look_at_gpus(say); });
  ask("nccl", Millis{10'000}, [](Say const& say) { look_at_nccl(say); });
  ask("fs", Millis{10'000}, [&](Say const& say) { look_at_directory(wanted, caretaker, say); });
  ask("log", Millis{10'000}, [&](Say const& say) { look_at_logs(wanted, environment, say); });
  ask("home", Millis{10'000}, [&](Say const& say) { look_at_home(environment, say); });
  ask("python", Millis{20'000}, [&](Say const& say) { look_at_python(wanted, environment, say); });
  if (wanted.slurm) {
    ask("slurm", Millis{5'000}, [&](Say const& say) { look_at_slurm(environment, say); });
  }
  Facts facts = look_at_system(environment);
  auto use = wanted.cpus;
  use.usable = os::usable_cpus();
  facts["cpus.warning"] = join(cpu_warnings(environment, use), "; ");
  facts["host"] = facts["name.own"] = wanted.host;
  facts["nodes"] = std::to_string(wanted.nodes);
  facts["name.needless"] = wanted.by_address ? "1" : "";
  return [begin, asked, facts = std::move(facts)]() mutable {
    for (auto& each : *asked) {
      auto const words = each.child.wait_until(begin + each.limit);
      take_lines(words.said, facts);
      if (!words.error.empty()) {
        facts["fork.error"] = words.error;
        facts[each.about + ".unasked"] = words.error;
      } else if (!words.ended) {
        facts[each.about + ".hung"] = seconds_text(each.limit);
      }
    }
    return std::move(facts);
  };
}

}  // namespace cxxrun::launcher::doctor
