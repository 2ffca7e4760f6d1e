#include "src/wire/rail_proof.hpp"

namespace cxxrun::wire {

std::string relay_text(RailGreeting const& call, RailGreeting const& answer) {
  std::string const how = call.caller != answer.caller
                              ? "begun at " + text_of(call.caller) + ", seen to come from " + text_of(answer.caller)
                              : "made to " + text_of(call.called) + ", seen to arrive at " + text_of(answer.called);
  return "the connection is relayed: " + how +
         "; where addresses are translated give that node its outer one with --local-addr";
}

}  // namespace cxxrun::wire
