#include "src/base/wire/rail_proof.hpp"

namespace cxxrun::wire {

std::string relay_text(RailGreeting const& call, RailGreeting const& answer) {
  std::string const how = call.caller != answer.caller
                              ? "begun at " + end_text(call.caller) + ", seen to come from " + end_text(answer.caller)
                              : "made to " + end_text(call.called) + ", seen to arrive at " + end_text(answer.called);
  return "the connection is relayed: " + how +
         "; where addresses are translated give that node its outer one with --local-addr";
}

}  // namespace cxxrun::wire
