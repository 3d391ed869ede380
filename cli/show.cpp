#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/common.hpp"
#include "cli/drawing.hpp"
#include "cli/fabric.hpp"
#include "cli/plan_source.hpp"
#include "cli/report_text.hpp"
#include "cli/show_framework.hpp"
#include "cli/status.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "core/base/counted.hpp"
#include "core/base/nearest.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/toml_json.hpp"
#include "core/base/units_text.hpp"
#include "core/plan/compute_order.hpp"
#include "core/plan/plan_file.hpp"
#include "core/plan/plan_names.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/lower/schedule.hpp"
#include "core/program/program_text.hpp"
#include "core/record/summarize.hpp"
#include "core/spec/hf_config.hpp"
#include "core/spec/model_level.hpp"
#include "core/spec/spec_files.hpp"
#include "sim/net/import/import.hpp"

namespace orrery {
namespace {

class ShowVerb final : public Verb {
 public:
  const char* name() const override { return "show"; }
  const char* summary() const override {
    return "describe, list or draw models, clusters, fabrics, plans and programs";
  }

  void declare(Command& c) override {
    c.positional("KIND", kind_,
                 "model, cluster, device, fabric, plan, program or framework; models, frameworks: a table of all");
    c.positional("X", reference_, "a name or a file; without it, the known names; for program: a plan");
    c.option("--part", part_, "model: the part of a config.json's model to take: language, vision, or with-head");
    c.flag("--dot", dot_, "as a graph for Graphviz; -o FILE.svg, .png or .pdf draws it");
    c.flag("--astra-sim", astra_, "fabric: as a network of ASTRA-sim's analytical backends");
    c.flag("--crossover", crossover_,
           "fabric: times of all-reduces and all-to-alls by every algorithm, over the first --gpus N (default: at most "
           "64)");
    c.option("--search", search_, "models: those whose name has this in it");
    c.option("--rank", rank_, "program: the expanded list of one rank");
    c.option("--after", after_, "program: as it stands after this pass of lowering");
    c.flag("--order", order_, "plan: what each pipeline rank computes, in order, as a custom schedule's file has it");
    c.option("--cluster", cluster_, "plan, program: the cluster, where the plan names none");
    declare_machine(c, flags_);
    declare_plan_sources(c, flags_);
    declare_output(c, flags_, "write it here");
    c.examples(
        "  orrery show models                     all, with their parameters\n"
        "  orrery show models --search qwen\n"
        "  orrery show model llama-3-70b\n"
        "  orrery show framework megatron-core\n"
        "  orrery show cluster dgx-h100 --gpus 64 --dot -o cluster.svg\n"
        "  orrery show fabric dgx-h100-superpod\n"
        "  orrery show fabric dgx-h100-superpod --crossover --gpus 32\n"
        "  orrery show plan demo-2x2x2\n"
        "  orrery show plan demo-2x2x2 --order -o mine.order\n"
        "  orrery show program demo-2x2x2 --rank 3\n"
        "  orrery show program demo-2x2x2 --after pipeline_transfers");
  }

  int run() override {
    refuse_flags();
    require_output(flags_);
    const Library library = library_of(flags_);
    if (kind_ == "models") return list_models(library);
    if (kind_ == "frameworks" || (kind_ == "framework" && !reference_)) return show_frameworks(flags_);
    if (kind_ == "framework") return show_framework(*reference_, flags_);
    if (kind_ == "model" || kind_ == "cluster" || kind_ == "device" || kind_ == "fabric" || kind_ == "plan") {
      if (!reference_) return list(library);
    }
    if (kind_ == "model") return model(library);
    if (kind_ == "cluster") return cluster(library);
    if (kind_ == "device") return device(library);
    if (kind_ == "fabric") return fabric(library);
    if (kind_ == "plan") return plan();
    return program();
  }

 private:
  /// Refuses flags that do not go together, or not with this kind.
  void refuse_flags() const {
    const std::vector<std::string> kinds{"model", "models",  "cluster",   "device",    "fabric",
                                         "plan",  "program", "framework", "frameworks"};
    if (std::find(kinds.begin(), kinds.end(), kind_) == kinds.end()) {
      std::vector<std::string> details{fmt::format("Known: {}.", fmt::join(kinds, ", "))};
      const std::vector<std::string> near = nearest(kind_, kinds, 1);
      if (!near.empty()) details.insert(details.begin(), fmt::format("Did you mean {}?", near.front()));
      refuse("cli.kind", fmt::format("\"{}\" cannot be shown", escaped(kind_)), std::move(details));
    }
    if (dot_ && kind_ == "device") {
      refuse("cli.flags", "a device cannot be drawn", {"--dot draws a model, cluster, fabric, plan or program."});
    }
    if (dot_ && !reference_) {
      refuse("cli.flags", "--dot needs something to draw", {fmt::format("orrery show {} X --dot", kind_)});
    }
    if (dot_ && flags_.json) {
      refuse("cli.flags", "--dot and --json do not go together", {"A graph is text for Graphviz."});
    }
    if (rank_ && kind_ != "program") refuse("cli.flags", "--rank goes with show program only");
    if (search_ && kind_ != "models") refuse("cli.flags", "--search goes with show models only");
    if (kind_ == "models" && (reference_ || dot_)) {
      refuse("cli.flags", "show models takes no name",
             {"orrery show model NAME shows one; --search TEXT looks for it."});
    }
    if (order_ && (kind_ != "plan" || !reference_)) refuse("cli.flags", "--order goes with show plan PLAN only");
    if (order_ && (dot_ || flags_.json)) refuse("cli.flags", "--order does not go with --dot or --json");
    if (!part_.empty() && (kind_ != "model" || !reference_)) refuse("cli.flags", "--part goes with show model X only");
    if (astra_ && (kind_ != "fabric" || !reference_)) refuse("cli.flags", "--astra-sim goes with show fabric F only");
    if (crossover_ && (kind_ != "fabric" || !reference_))
      refuse("cli.flags", "--crossover goes with show fabric F only");
    if (crossover_ && (dot_ || astra_)) refuse("cli.flags", "--crossover does not go with --dot or --astra-sim");
    if (astra_ && (dot_ || flags_.json)) refuse("cli.flags", "--astra-sim does not go with --dot or --json");
    if (after_) refuse_pass();
    if (rank_ && dot_) {
      refuse("cli.flags", "--rank and --dot do not go together",
             {"A Program is drawn block by block, not rank by rank."});
    }
    if (dot_ && flags_.output && !prints_output(flags_) && format_of(*flags_.output).empty() &&
        std::filesystem::path(*flags_.output).has_extension()) {
      refuse("cli.flags", fmt::format("{} does not end in a known kind of drawing", escaped(*flags_.output)),
             {"A name that ends in .svg, .png or .pdf is drawn by Graphviz; .dot and .gv hold the graph as text."});
    }
    if (!dot_ && flags_.output && !format_of(*flags_.output).empty()) {
      refuse("cli.flags", fmt::format("{} would not be a picture without --dot", escaped(*flags_.output)),
             {"--dot draws a model, cluster, fabric, plan or program."});
    }
  }

  void refuse_pass() const {
    if (kind_ != "program") refuse("cli.flags", "--after goes with show program only");
    const std::vector<std::string> names = pass_names();
    if (std::find(names.begin(), names.end(), *after_) != names.end()) return;
    std::vector<std::string> details{fmt::format("In order: {}.", fmt::join(names, ", "))};
    const std::vector<std::string> near = nearest(*after_, names, 1);
    if (!near.empty()) details.insert(details.begin(), fmt::format("Did you mean {}?", near.front()));
    refuse("cli.pass", fmt::format("lowering has no pass \"{}\"", escaped(*after_)), std::move(details));
  }

  void put(const std::string& text) const { flags_.output ? write_output(flags_, text) : print(text); }
  void put_json(const nlohmann::ordered_json& json) const { put(json_text(json)); }
  void put_dot(const std::string& graph) const {
    const std::string format = flags_.output ? format_of(*flags_.output) : "";
    put(format.empty() || format == "dot" ? graph : draw(graph, format));
  }

  int list(const Library& library) const {
    const std::vector<std::string> names = kind_ == "model"     ? library.models()
                                           : kind_ == "cluster" ? library.clusters()
                                           : kind_ == "device"  ? library.devices()
                                           : kind_ == "fabric"  ? library.fabrics()
                                                                : library.plans();
    if (flags_.json) {
      put_json(names);
      return status_fine;
    }
    std::string out;
    for (const std::string& n : names) out += n + "\n";
    put(out);
    return status_fine;
  }

  /// One line for each shipped model.
  int list_models(const Library& library) const {
    std::vector<std::vector<std::string>> rows;
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const std::string& name : library.models()) {
      if (search_ && name.find(*search_) == std::string::npos) continue;
      Diagnostics d;
      const std::optional<ModelSpec> m = library.model(name, ".", d);
      require_none(d);
      const std::string_view level = name_of(level_of(*m));
      all.push_back({{"name", name},
                     {"parameters", published_parameter_count(*m)},
                     {"active_parameters", active_parameter_count(*m)},
                     {"level", level}});
      rows.push_back({name, with_commas(published_parameter_count(*m)),
                      m->mixture ? with_commas(active_parameter_count(*m)) : "", std::string(level)});
    }
    if (flags_.json) {
      put_json(all);
      return status_fine;
    }
    if (rows.empty()) {
      refuse("cli.search", fmt::format("no shipped model has \"{}\" in its name", escaped(*search_)),
             {"orrery show models lists all. A config.json of Hugging Face is read too (docs/model-file.md)."});
    }
    Table table({"<model", "parameters", "of a token", "<level"});
    for (std::vector<std::string>& row : rows) table.row(std::move(row));
    put(table.str("") + "\ncounted: parameters alone; priced: plans are estimated and searched; executed: they run.\n");
    return status_fine;
  }

  static std::string level_text(const ModelSpec& m) {
    const std::vector<std::string> lacks = unpriced(m), kernels = unexecuted(m);
    if (!lacks.empty()) return fmt::format("# counted, not priced: plans do not have {}\n", fmt::join(lacks, ", "));
    if (!kernels.empty()) return fmt::format("# priced, not run: kernels do not have {}\n", fmt::join(kernels, ", "));
    return "# priced and executed\n";
  }

  int model(const Library& library) const {
    Diagnostics d;
    const std::optional<ModelSpec> m = named_model(library, part_.empty() ? *reference_ : *reference_ + "#" + part_, d);
    require_none(d);
    if (dot_) {
      put_dot(dot_of(*m));
    } else if (flags_.json) {
      nlohmann::ordered_json json = json_of_toml(write_model(*m))["model"];
      json["parameters"] = parameter_count(*m);
      if (!m->counted) json["layer_parameters"] = layer_parameter_count(*m);
      json["published_parameters"] = published_parameter_count(*m);
      json["active_parameters"] = active_parameter_count(*m);
      json["architecture"] = name_of(m->architecture);
      json["level"] = name_of(level_of(*m));
      json["unpriced"] = unpriced(*m);
      json["unexecuted"] = unexecuted(*m);
      json["not_read"] = unread_keys(*m);
      put_json(json);
    } else {
      std::string counts = fmt::format("# {} parameters", with_commas(parameter_count(*m)));
      // The spec does not describe layers of a model that is only counted.
      if (!m->counted) counts += fmt::format(", {} in each layer", with_commas(layer_parameter_count(*m)));
      counts += '\n';
      if (active_parameter_count(*m) < parameter_count(*m)) {
        counts += fmt::format("# of which a token meets {}\n", with_commas(active_parameter_count(*m)));
      }
      if (published_parameter_count(*m) != parameter_count(*m)) {
        counts += fmt::format("# published as {}: {}\n", with_commas(published_parameter_count(*m)),
                              m->mixture        ? "with the biases that only the choice of experts sees"
                              : m->segments > 0 ? "with a pooler, without the head of masked words"
                                                : "without the head of masked words");
      }
      if (m->prediction_modules > 0) {
        counts +=
            fmt::format("# and {} in each prediction module\n", with_commas(prediction_module_parameter_count(*m)));
      }
      counts += level_text(*m);
      if (const std::string unread = unread_text(*m); !unread.empty()) counts += fmt::format("# {}\n", unread);
      put(counts + write_model(*m));
    }
    return status_fine;
  }

  int cluster(const Library& library) const {
    Diagnostics d;
    std::optional<ClusterSpec> c = named_cluster(library, with_nic(*reference_, flags_), flags_.gpus, d);
    require_none(d);
    adapt_to_this_machine(*c);
    if (dot_) {
      put_dot(dot_of(*c));
    } else if (flags_.json) {
      nlohmann::ordered_json json = json_of_toml(write_cluster(*c))["cluster"];
      json["devices"] = c->devices();
      if (!c->assumed.empty()) json["assumed"] = c->assumed;
      // JSON has base units beside the texts of the file.
      json["memory_bytes"] = c->device.memory.base();
      json["memory_bandwidth_bytes_per_s"] = c->device.memory_bandwidth.base();
      for (const auto& [p, rate] : c->device.peak) json["peak_flop_per_s"][std::string(name_of(p))] = rate.base();
      if (c->host_memory.base() > 0.0) json["host_memory_bytes"] = c->host_memory.base();
      if (c->host_link) json["host_link_bytes_per_s"] = c->host_link->base();
      if (c->host_bandwidth) json["host_bandwidth_bytes_per_s"] = c->host_bandwidth->base();
      if (c->disk) {
        json["disk"]["capacity_bytes"] = c->disk->capacity.base();
        json["disk"]["read_bytes_per_s"] = c->disk->read.base();
        json["disk"]["write_bytes_per_s"] = c->disk->write.base();
        json["disk"]["latency_s"] = c->disk->latency.base();
      }
      for (std::size_t i = 0; i < c->levels.size(); ++i) {
        json["levels"][i]["bandwidth_bytes_per_s"] = c->levels[i].bandwidth.base();
        json["levels"][i]["latency_s"] = c->levels[i].latency.base();
        for (const SizedRate& r : c->levels[i].rates) {
          json["levels"][i]["rates_by_size"].push_back(
              {{"message_bytes", r.message.base()}, {"rate_bytes_per_s", r.rate.base()}});
        }
      }
      put_json(json);
    } else {
      std::string notes = fmt::format("# {} devices\n", c->devices());
      for (const std::string& what : c->assumed) notes += fmt::format("# assumed: {}\n", what);
      put(notes + write_cluster(*c));
    }
    return status_fine;
  }

  static nlohmann::ordered_json device_json(const DeviceSpec& v) {
    nlohmann::ordered_json json = json_of_toml(write_device(v))["device"];
    json["memory_bytes"] = v.memory.base();
    json["memory_bandwidth_bytes_per_s"] = v.memory_bandwidth.base();
    for (const auto& [p, rate] : v.peak) json["peak_flop_per_s"][std::string(name_of(p))] = rate.base();
    return json;
  }

  int device(const Library& library) const {
    Diagnostics d;
    const std::optional<DeviceSpec> v = library.device(*reference_, d);
    require_none(d);
    if (flags_.json) {
      put_json(device_json(*v));
    } else {
      put(write_device(*v));
    }
    return status_fine;
  }

  /// Number of GPUs in a crossover table: as given by --gpus, otherwise whole nodes with at most 64.
  std::uint32_t gpus_to_compare(const Fabric& f) const {
    constexpr std::uint32_t most = 512;
    if (!flags_.gpus) {
      const std::uint32_t each = f.spec().node.gpus;
      return std::min(f.gpus(), each >= 64 ? 64 : 64 / each * each);
    }
    if (*flags_.gpus < 2 || *flags_.gpus > std::min(most, f.gpus())) {
      refuse("cli.arguments", fmt::format("algorithms are not compared over {}", counted(*flags_.gpus, "GPU")),
             {fmt::format("The fabric has {}; from 2 to {} are compared.", f.gpus(), std::min(most, f.gpus()))});
    }
    return static_cast<std::uint32_t>(*flags_.gpus);
  }

  int fabric(const Library& library) const {
    Diagnostics d;
    const std::optional<Fabric> f = named_fabric(library, *reference_, d);
    require_none(d);
    if (crossover_) {
      const CollectiveComparison c = compare_collectives(*f, gpus_to_compare(*f));
      flags_.json ? put_json(comparison_json(*f, c)) : put(comparison_text(*f, c));
    } else if (dot_) {
      put_dot(dot_of(*f));
    } else if (astra_) {
      std::string why;
      const std::optional<std::string> text = astra_text(f->spec(), why);
      if (!text)
        refuse("export.astra-sim", fmt::format("{} has no form in ASTRA-sim", escaped(f->spec().name)), {why + "."});
      put(*text);
    } else if (flags_.json) {
      put_json(fabric_json(*f));
    } else {
      put(fabric_text(*f, PathRule::by_destination));
    }
    return status_fine;
  }

  int plan() const {
    const PlannedRun run = read_plan_source(*reference_, flags_, cluster_);
    if (order_) {
      const auto count = static_cast<std::uint32_t>(microbatches(run.plan, run.workload));
      put(fmt::format("# {} on {} pipeline ranks, {} microbatches\n", name_of(run.plan.schedule),
                      run.plan.mesh.size(Axis::pipeline), count) +
          write_order(lowering::compute_order(run.plan, count)));
    } else if (dot_) {
      put_dot(dot_of(run));
    } else if (flags_.json) {
      nlohmann::ordered_json json = json_of_toml(write_plan(run));
      json["ranks"] = run.plan.mesh.size();
      json["mesh_text"] = mesh_text(run.plan.mesh);
      json["microbatches"] = microbatches(run.plan, run.workload);
      json["plan_file"] = write_plan(run);
      put_json(json);
    } else {
      const LoadedPlan loaded = load_plan(*reference_, flags_, cluster_ ? cluster_ : "local-cpu",
                                          cluster_ ? ClusterUse::replace : ClusterUse::fall_back);
      // A file gets only the plan, so that it reads back.
      const std::string text = write_plan(loaded.run);
      if (flags_.output) {
        write_output(flags_, text);
      } else {
        print(heading_text(loaded.run, loaded.calibration) + resolutions_text(loaded.resolved) + "\n" + text);
      }
    }
    return status_fine;
  }

  int program() const {
    if (!reference_) refuse("cli.kind", "show program needs a plan", {"orrery show program plan.toml"});
    const LoadedPlan loaded = load_plan(*reference_, flags_, cluster_ ? cluster_ : "local-cpu",
                                        cluster_ ? ClusterUse::replace : ClusterUse::fall_back);
    const Program p =
        after_ ? lower_until(loaded.run.model, loaded.run.workload, loaded.run.plan, *after_) : loaded.program;
    if (rank_) {
      if (*rank_ >= p.mesh.size()) {
        refuse("cli.rank", "--rank is out of range",
               {fmt::format("It is {}; the plan has ranks 0 to {}.", *rank_, p.mesh.size() - 1)});
      }
      std::string list = write_rank(p, Rank{*rank_});
      if (flags_.json) {
        put_json({{"rank", *rank_}, {"class", class_of(p, Rank{*rank_})}, {"text", std::move(list)}});
      } else {
        put(list);
      }
    } else if (dot_) {
      put_dot(dot_of(p));
    } else if (flags_.json) {
      std::uint64_t ops = 0;
      for (const Block& b : p.blocks) ops += b.ops.size();
      put_json({{"ranks", p.mesh.size()},
                {"classes", p.classes.size()},
                {"blocks", p.blocks.size()},
                {"ops_in_blocks", ops},
                {"buffers", p.buffers.size()},
                {"groups", p.groups.size()},
                {"microbatches", p.microbatches},
                {"sent_bytes", program_sent_bytes(p)},
                {"text", write_program(p)}});
    } else {
      put(write_program(p));
    }
    return status_fine;
  }

  CommonFlags flags_;
  std::string kind_;
  std::optional<std::string> reference_, cluster_, after_, search_;
  std::string part_;
  bool crossover_ = false, astra_ = false;
  bool dot_ = false;
  bool order_ = false;
  std::optional<std::uint32_t> rank_;
};

}  // namespace

std::unique_ptr<Verb> show_verb() { return std::make_unique<ShowVerb>(); }

}  // namespace orrery
