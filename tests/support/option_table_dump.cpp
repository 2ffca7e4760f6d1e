// Prints the options of the programs for scripts/generate, a line each, cells separated by tabs.
#include <cstdio>

#include "launcher/options/parse_options.hpp"
#include "launcher/view/ctl_options.hpp"

int main() {
  using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace)
  Options job;
  RendezvousOptions rendezvous;
  StoreOptions store;
  view::CtlOptions ctl;
  for (auto const& command :
       {cxxrun_command(job), rendezvous_command(rendezvous), store_command(store), ctl_command(ctl)}) {
    for (auto const& group : command.groups) {
      for (auto const& row : group.rows) {
        std::printf("%s\t%s\t%s\t%s\t%s\t%s\t%s\n", command.name, group.heading, row.short_name, row.name,
                    row.value_name, row.help, row.ours ? "ours" : "");
      }
    }
    for (auto const& [names, launcher, instead] : command.foreign) {
      std::printf("foreign\t%s\t%s\t%s\n", names, launcher, instead);
    }
  }
}
