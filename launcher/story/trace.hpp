// Trace: the story of a job as a trace that Perfetto and chrome://tracing show (--trace). Pure.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/values/story.hpp"

namespace cxxrun::launcher {

/// A JSON array of complete events. Process 0 is the job: what its time was spent on, and its generations; process N +
/// 1 is the node of group rank N, with its workers by their ranks. Of very many workers only the job is shown.
[[nodiscard]] std::string trace_text(std::vector<rendezvous::story::Event> const& story);

}  // namespace cxxrun::launcher
