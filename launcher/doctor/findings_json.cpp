#include <nlohmann/json.hpp>

#include "launcher/doctor/findings_text.hpp"

namespace cxxrun::launcher::doctor {

using Json = nlohmann::json;

namespace {

Json to_json(Findings const& findings) {
  Json all = Json::array();
  for (auto const& each : findings) {
    all.push_back(
        {{"grade", name_of(each.grade)}, {"about", each.about}, {"found", each.found}, {"remedy", each.remedy}});
  }
  return all;
}

}  // namespace

std::string findings_json(Report const& report) {
  Json json = {{"version", 1},
               {"failures", count(report, Grade::failure)},
               {"warnings", count(report, Grade::warning)},
               {"nodes", Json::array()},
               {"step", to_json(report.step)}};
  for (auto const& node : report.nodes) {
    json["nodes"].push_back({{"host", node.host}, {"findings", to_json(node.findings)}});
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
