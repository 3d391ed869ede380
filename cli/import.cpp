#include "sim/net/import/import.hpp"
#include "core/base/source_excerpt.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/channels.hpp"
#include "cli/common.hpp"
#include "cli/fabric.hpp"
#include "cli/file_kind.hpp"
#include "cli/import_launch.hpp"
#include "cli/plan_source.hpp"
#include "cli/status.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "core/base/toml_reader.hpp"
#include "core/base/units_text.hpp"
#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"
#include "framework/framework.hpp"

namespace orrery {
namespace {

class ImportVerb final : public Verb {
 public:
  const char* name() const override { return "import"; }
  const char* summary() const override {
    return "turn another program's launch file into a plan, or its description of a network into a fabric";
  }

  void declare(Command& c) override {
    c.positional("FILE", file_,
                 "a launch file of Megatron-LM, DeepSpeed, torchtitan, Accelerate, nanotron, axolotl, LLaMA-Factory, "
                 "torchtune or Colossal-AI; or a description of a network: topology, graphs or log of NCCL, what "
                 "`nvidia-smi topo -m` "
                 "printed, Slurm's topology.conf or .yaml, a network of ASTRA-sim (YAML), a graph for Graphviz");
    c.choice("--as", kind_, kinds(), "what FILE is");
    declare_output(c, flags_, "write the plan or the fabric here; default: print it");
    c.group("Of a launch file");
    declare_plan_sources(c, flags_);
    c.option("--gpus", flags_.gpus, "number of GPUs, where it does not say", {1, max_devices});
    c.option("--cluster", cluster_, "the cluster that it runs on; NCCL's graphs and log: the cluster that gets them");
    c.flag("--verbose", verbose_, "list the keys without effect, too");
    c.group("Of a network");
    c.option("--gpu", gpu_, "which GPUs these are (h100), where FILE does not say how fast their links are");
    c.option(
        "--nvlinks", nvlinks_,
        "NVLinks of each GPU, where `nvidia-smi topo -mp` left them out: they lead to NVSwitches; 0: there are none",
        {0, 36});
    c.option("--nic", nic_, "a network port's bandwidth (\"400 Gbit/s\"), where FILE does not say");
    c.option("--without", without_, "NICs that carry no training, by the file's names (those for storage): NIC4,NIC5");
    c.option("--nodes", nodes_,
             "number of nodes like the one in FILE, on one switch; NCCL's graphs and log: number of nodes of the run",
             {1, max_fabric_gpus});
    c.option("--node", node_, "Slurm: the fabric whose node stands in each place; default: one GPU");
    c.option("--name", name_, "name of the fabric; default: the file's");
    c.examples(
        "  orrery import train.sh -o plan.toml\n"
        "  orrery import ds_config.json --model llama-3-8b --gpus 16 --set sequence=8192 -o plan.toml\n"
        "  orrery import config.toml --cluster dgx-h100 --gpus 64 --nearest -o plan.toml\n"
        "  NCCL_TOPO_DUMP_FILE=topo.xml ./my_training      and then: orrery import topo.xml -o node.toml\n"
        "  nvidia-smi topo -m > topo.txt                   and then: orrery import topo.txt --gpu h100 --nodes 4 --nic "
        "\"400 Gbit/s\"\n"
        "  orrery import /etc/slurm/topology.conf --node dgx-h100-superpod --nic \"400 Gbit/s\" -o cluster.toml\n"
        "  orrery simulate plan.toml --fabric cluster.toml\n"
        "  NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH ./my_training > run.log\n"
        "                                                  and then: orrery import run.log --cluster dgx-h100 -o "
        "mine.toml");
  }

  int run() override {
    require_output(flags_);
    keep_apart(file_, {flags_.output});
    Diagnostics d;
    const std::optional<std::string> text = read_text(file_, d);
    require_none(d);
    if (is_launch(*text)) {
      refuse_flags_of_networks();
      return import_launch({file_, launch_format(), cluster_, verbose_}, flags_);
    }
    for (const auto& [flag, given] : {std::pair("--model", flags_.model.has_value()),
                                      std::pair("--set", !flags_.set.empty()), std::pair("--nearest", flags_.nearest),
                                      std::pair("--gpus", flags_.gpus.has_value()), std::pair("--verbose", verbose_)}) {
      if (given) refuse("cli.flags", fmt::format("{} goes only with a launch file", flag));
    }
    const std::optional<ChannelFile> channels = kind_ == "auto"         ? channel_file_of(*text)
                                                : kind_ == "nccl-graph" ? std::optional(ChannelFile::graph)
                                                : kind_ == "nccl-log"   ? std::optional(ChannelFile::log)
                                                                        : std::nullopt;
    if (channels) return import_channels(*channels, *text);
    if (cluster_) refuse("cli.flags", "--cluster goes only with NCCL's graphs and log");
    const std::optional<ImportKind> kind = kind_ == "auto" ? import_kind_of(*text) : kind_named();
    if (!kind) {
      Diagnostics ignored;
      if (const FileKind own = kind_of(*text, file_, ignored); own != FileKind::unknown) {
        refuse("import.kind", fmt::format("{} is {}, which needs no import", escaped(file_), with_article(own)),
               {"import takes launch files of other programs, and descriptions of networks."});
      }
      refuse_broken_launch(*text, file_);
      std::vector<std::string> known = kinds();
      known.erase(known.begin());  // auto
      refuse("import.kind", fmt::format("{}: the kind of this file cannot be recognised", escaped(file_)),
             {fmt::format("Name it with --as: {}.", fmt::join(known, ", "))});
    }
    const ImportOptions options = options_for(*kind);
    const std::optional<Imported> imported = import_fabric(*kind, *text, file_, options, d);
    require_none(d);
    std::vector<std::string> comments{
        fmt::format("Imported from {} ({}).", std::filesystem::path(file_).filename().string(), name_of(*kind))};
    for (const std::string& n : imported->notes) comments.push_back("Assumed: " + n + ".");
    const std::string out = write_fabric(imported->fabric, comments);
    write_output(flags_, out);
    if (prints_output(flags_)) return status_fine;
    if (flags_.json) {
      nlohmann::ordered_json json = fabric_json(Fabric(imported->fabric));
      json["kind"] = name_of(*kind);
      json["assumed"] = imported->notes;
      if (!flags_.output) json["text"] = out;
      print_json(json);
    } else if (flags_.output) {
      std::string said = fabric_text(Fabric(imported->fabric), PathRule::by_destination);
      for (const std::string& n : imported->notes) said += "assumed: " + escaped(n) + "\n";
      print(said);
    } else {
      print(out);
    }
    return status_fine;
  }

 private:
  [[nodiscard]] bool is_launch(const std::string& text) const {
    if (kind_ != "auto") return is_launch_format(kind_);
    return !launch_title(text, file_).empty();
  }
  void refuse_flags_of_networks() const {
    for (const auto& [flag, given] :
         {std::pair("--gpu", gpu_.has_value()), std::pair("--nvlinks", nvlinks_.has_value()),
          std::pair("--nic", nic_.has_value()), std::pair("--without", without_.has_value()),
          std::pair("--nodes", nodes_.has_value()), std::pair("--node", node_.has_value()),
          std::pair("--name", name_.has_value())}) {
      if (given) {
        refuse("cli.flags", fmt::format("{} goes only with a description of a network", flag),
               {fmt::format("{} is a launch file; --gpus and --cluster say what it runs on.", escaped(file_))});
      }
    }
  }
  [[nodiscard]] std::string launch_format() const { return kind_; }

  static std::vector<std::string> kinds() {
    std::vector<std::string> out{"auto"};
    out.insert(out.end(), import_kind_names().begin(), import_kind_names().end());
    out.insert(out.end(), {"nccl-graph", "nccl-log"});
    const std::vector<std::string> launches = launch_format_names();
    out.insert(out.end(), launches.begin(), launches.end());
    return out;
  }

  /// Imports channels that NCCL found: as tables of a cluster's file, or into that file.
  int import_channels(ChannelFile kind, const std::string& text) {
    const char* what = kind == ChannelFile::graph ? "NCCL's graphs" : "NCCL's log";
    for (const auto& [flag, given] :
         {std::pair("--gpu", gpu_.has_value()), std::pair("--nvlinks", nvlinks_.has_value()),
          std::pair("--nic", nic_.has_value()), std::pair("--without", without_.has_value()),
          std::pair("--node", node_.has_value()), std::pair("--name", name_.has_value())}) {
      if (given) refuse("cli.flags", fmt::format("{} does not apply to {}", flag, what));
    }
    Diagnostics d;
    const std::optional<NcclChannelReport> report = import_nccl_channels(kind, text, file_, nodes_, d);
    require_none(d);
    if (report->graphs.empty() && (flags_.output || cluster_)) {
      refuse("import.missing", fmt::format("{} has no rates of channels to write", escaped(file_)),
             {"NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH prints them."});
    }
    std::string out;
    if (cluster_) {
      std::optional<ClusterSpec> cluster = library_of(flags_).cluster(*cluster_, {}, std::nullopt, d);
      require_none(d);
      for (const ChannelGraph& g : report->graphs) {
        std::erase_if(cluster->channels, [&](const ChannelGraph& other) {
          return other.kind == g.kind && other.ranks == g.ranks && other.nodes == g.nodes;
        });
        cluster->channels.push_back(g);
      }
      out = write_cluster(*cluster);
    } else {
      out = channel_tables(*report, {fmt::format("Imported from {}; for a cluster's file.",
                                                 escaped(std::filesystem::path(file_).filename().string()))});
    }
    write_output(flags_, out);
    if (prints_output(flags_)) return status_fine;
    if (flags_.json) {
      nlohmann::ordered_json json = channels_json(*report);
      json["kind"] = kind == ChannelFile::graph ? "nccl-graph" : "nccl-log";
      if (!flags_.output) json["text"] = out;
      print_json(json);
    } else if (flags_.output || report->graphs.empty()) {
      print(channels_text(*report));
    } else {
      // Where the output ends up in a file, the text stands above it as comments.
      std::string said = channels_text(*report), comments;
      for (std::size_t i = 0; i < said.size();) {
        const std::size_t end = said.find('\n', i);
        comments += "# " + said.substr(i, end - i) + "\n";
        i = end + 1;
      }
      print(comments + out);
    }
    return status_fine;
  }

  ImportKind kind_named() const {
    const std::vector<std::string>& names = import_kind_names();
    return static_cast<ImportKind>(std::find(names.begin(), names.end(), kind_) - names.begin());
  }

  ImportOptions options_for(ImportKind kind) const {
    const bool one_node = kind == ImportKind::nccl_topology || kind == ImportKind::smi_topology;
    const auto unused = [&](const char* flag, bool given, bool used) {
      if (given && !used)
        refuse("cli.flags", fmt::format("{} does not apply to a file of the kind {}", flag, name_of(kind)));
    };
    unused("--gpu", gpu_.has_value(), one_node);
    unused("--nvlinks", nvlinks_.has_value(), kind == ImportKind::smi_topology);
    unused("--without", without_.has_value(), one_node);
    unused("--nodes", nodes_.has_value(), one_node);
    unused("--nic", nic_.has_value(), one_node || kind == ImportKind::slurm_topology);
    unused("--node", node_.has_value(), kind == ImportKind::slurm_topology);
    ImportOptions out;
    out.name = name_.value_or(std::filesystem::path(file_).stem().string());
    if (out.name.empty() || out.name.size() > 200) out.name = "imported";
    out.gpu = gpu_;
    out.nvlinks = nvlinks_;
    out.nodes = nodes_.value_or(1);
    for (std::size_t i = 0; without_ && i <= without_->size();) {
      const std::size_t comma = std::min(without_->find(',', i), without_->size());
      out.without.push_back(without_->substr(i, comma - i));
      i = comma + 1;
    }
    if (nic_) {
      Bandwidth b;
      std::string problem;
      if (!parse_quantity(*nic_, b, problem) || !(b.base() >= 1.0) || b.base() > 1e18) {
        refuse(
            "cli.arguments", fmt::format("--nic \"{}\" is not a bandwidth", escaped(*nic_)),
            {problem.empty() ? std::string("It is out of range.") : problem, "--nic \"400 Gbit/s\" would be right."});
      }
      out.nic = b;
    }
    if (node_) {
      Diagnostics d;
      const std::optional<Fabric> f = named_fabric(library_of(flags_), *node_, d);
      require_none(d);
      out.node = f->spec().node;
    }
    return out;
  }

  std::string file_, kind_ = "auto";
  std::optional<std::string> gpu_, nic_, node_, name_, without_, cluster_;
  std::optional<std::uint32_t> nodes_, nvlinks_;
  CommonFlags flags_;
  bool verbose_ = false;
};

}  // namespace

std::unique_ptr<Verb> import_verb() { return std::make_unique<ImportVerb>(); }

}  // namespace orrery
