// Metrics: the table of a job as Prometheus reads it. Pure. docs/use/live.md.
#pragma once

#include <string>

#include "launcher/view/table.hpp"

namespace cxxrun::launcher::view {

/// Text in version 0.0.4 of the exposition format. `all`: figures of all ranks, not only of the furthest; each is a
/// series of its own.
[[nodiscard]] std::string metrics_text(Table const& table, bool all);

}  // namespace cxxrun::launcher::view
