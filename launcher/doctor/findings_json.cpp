#include <nlohmann/json.hpp>

#include "launcher/doctor/findings_text.hpp"

namespace cxxrun::launcher::doctor {

using Json = nlohmann::json;

std::string findings_json(std::vector<NodeFindings> const& nodes) {
  Json json = {{"version", 1},
               {"failures", count(nodes, Grade::failure)},
               {"warnings", count(nodes, Grade::warning)},
               {"nodes", Json::array()}};
  for (auto const& node : nodes) {
    Json findings = Json::array();
    for (auto const& each : node.findings) {
      findings.push_back(
          {{"grade", name_of(each.grade)}, {"about", each.about}, {"found", each.found}, {"remedy", each.remedy}});
    }
    json["nodes"].push_back({{"host", node.host}, {"findings", std::move(findings)}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string write_facts(Facts const& facts) {
  return Json(facts).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Facts> read_facts(std::string const& text) {
  auto const json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    return fail(Errc::protocol, "no facts");
  }
  Facts facts;
  for (auto const& [key, value] : json.items()) {
    if (!value.is_string()) {
      return fail(Errc::protocol, "no fact: " + key);
    }
    facts[key] = value.get<std::string>();
  }
  return facts;
}

}  // namespace cxxrun::launcher::doctor
