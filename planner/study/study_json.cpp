#include "planner/study/study_json.hpp"

#include <nlohmann/json.hpp>

namespace orrery {
namespace {

using nlohmann::ordered_json;

ordered_json of_figure(const Figure& f) {
  ordered_json out{{"text", f.text}};
  out["value"] = f.value ? ordered_json(*f.value) : ordered_json();
  return out;
}

ordered_json of_claim(const Claim& c) {
  return {{"what", c.what},
          {"published", of_figure(c.published)},
          {"evidence", name_of(c.evidence)},
          {"computed", of_figure(c.computed)},
          {"verdict", name_of(c.verdict)},
          {"reason", c.reason}};
}

ordered_json of_table(const StudyTable& t) {
  ordered_json out{{"title", t.title}, {"columns", ordered_json::array()}, {"rows", ordered_json::array()}};
  for (const std::string& c : t.columns) out["columns"].push_back(c.substr(!c.empty() && c[0] == '<' ? 1 : 0));
  for (const std::vector<Figure>& row : t.rows) {
    ordered_json cells = ordered_json::array();
    for (const Figure& f : row) cells.push_back(f.value ? ordered_json(*f.value) : ordered_json(f.text));
    out["rows"].push_back(std::move(cells));
  }
  return out;
}

ordered_json of_chart(const Chart& c) {
  ordered_json out{{"title", c.title},
                   {"x", c.x_label},
                   {"y", c.y_label},
                   {"log_x", c.log_x},
                   {"log_y", c.log_y},
                   {"categories", c.categories},
                   {"series", ordered_json::array()}};
  for (const Series& s : c.series) {
    ordered_json points = ordered_json::array();
    for (const Series::Point& p : s.points) points.push_back({p.x, p.y});
    out["series"].push_back({{"name", s.name}, {"points", std::move(points)}});
  }
  return out;
}

}  // namespace

ordered_json to_json(const StudyResult& r) {
  ordered_json out{
      {"schema", 1},          {"study", r.name},    {"title", r.title},       {"experiments", r.experiments},
      {"sources", r.sources}, {"inputs", r.inputs}, {"formulas", r.formulas}, {"assumptions", r.assumptions}};
  out["claims"] = ordered_json::array();
  for (const Claim& c : r.claims) out["claims"].push_back(of_claim(c));
  out["tables"] = ordered_json::array();
  for (const StudyTable& t : r.tables) out["tables"].push_back(of_table(t));
  out["charts"] = ordered_json::array();
  for (const Chart& c : r.charts) out["charts"].push_back(of_chart(c));
  out["conclusions"] = r.conclusions;
  return out;
}

}  // namespace orrery
