#include "framework/launch/launcher.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace orrery {
namespace {

std::string_view base(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool is_flag(const std::string& s) {
  return s.size() >= 2 && s[0] == '-' &&
         (std::isalpha(static_cast<unsigned char>(s[1])) != 0 || (s[1] == '-' && s.size() > 2));
}

bool is_distributed(std::string_view module) {
  return module == "torch.distributed.run" || module == "torch.distributed.launch" || module == "torch.distributed";
}

/// "--nproc-per-node" as "nproc_per_node".
std::string plain(std::string_view flag) {
  while (flag.starts_with('-')) flag.remove_prefix(1);
  std::string out(flag);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

/// Switches of the launchers, which have no value behind them.
bool is_switch(const std::string& name) {
  static constexpr std::array<std::string_view, 12> switches{
      "standalone", "no_python", "use_env", "module", "unbuffered",     "label",
      "exclusive",  "l",         "u",       "K",      "wait_all_nodes", "allow_run_as_root"};
  return std::find(switches.begin(), switches.end(), name) != switches.end();
}

bool is_of_launchers(const std::string& name) {
  static constexpr std::array<std::string_view, 24> names{
      "nproc_per_node",     "nnodes",     "node_rank",     "master_addr",
      "master_port",        "rdzv_id",    "rdzv_endpoint", "rdzv_backend",
      "rdzv_conf",          "tee",        "redirects",     "log_dir",
      "max_restarts",       "role",       "local_addr",    "start_method",
      "monitor_interval",   "num_gpus",   "num_nodes",     "hostfile",
      "local_ranks_filter", "standalone", "nodes",         "ntasks"};
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::optional<std::int64_t> number(const ShellText& t) {
  return t.is_known() ? shell_arithmetic(t.chars) : std::nullopt;
}

ShellText digits(std::int64_t n, const ShellText& like) {
  ShellText out;
  for (const char c : std::to_string(n)) out.add(c, like.at.empty() ? ShellText::nowhere : like.at.front());
  return out;
}

/// "gpu:8", "gpu:h100:8": the number.
ShellText of_resource(const ShellText& t) {
  const std::size_t colon = t.chars.rfind(':');
  if (colon == std::string::npos) return t;
  ShellText out;
  for (std::size_t i = colon + 1; i < t.chars.size(); ++i) out.add(t.chars[i], t.at[i]);
  return out;
}

}  // namespace

void Launcher::flag(const std::string& name, const ShellText& value, bool of_slurm) {
  if (name == "nproc_per_node" || name == "num_gpus") {
    per_node_ = value;
  } else if (name == "nnodes" || name == "num_nodes") {
    nodes_ = value;
  } else if (name == "ntasks_per_node" || name == "gpus_per_node" || name == "gpus" || name == "gres") {
    if (name.starts_with("g") || !slurm_per_node_) slurm_per_node_ = of_resource(value);
  } else if (of_slurm && (name == "N" || name == "nodes")) {
    slurm_nodes_ = value;
  } else if (of_slurm && (name == "n" || name == "ntasks" || name == "np")) {
    all_ = value;
  } else {
    others_.emplace_back(name, value);
  }
}

std::size_t Launcher::read(const std::vector<ShellText>& words) {
  // The program begins behind a script, or a module that is no launcher.
  std::size_t program = words.size();
  for (std::size_t i = 0; i < words.size() && program == words.size(); ++i) {
    const std::string& w = words[i].chars;
    if (base(w) == "torchrun" || base(w) == "deepspeed" || is_distributed(w)) launches_ = true;
    if (!is_flag(w) && w.ends_with(".py") && !w.ends_with("distributed/run.py")) program = i + 1;
    if (w == "-m" && i + 1 < words.size() && !is_distributed(words[i + 1].chars)) program = i + 2;
  }
  const bool found = program < words.size() || words.empty();
  bool slurm = false;
  std::size_t i = 0;
  if (!found && (words.front().chars.starts_with('-') || words.front().chars.find('=') != std::string::npos)) return 0;
  while (i < program) {
    const std::string& w = words[i].chars;
    const std::string_view name = base(w);
    if (name == "srun" || name == "mpirun" || name == "mpiexec") slurm = true;
    if (name == "torchrun" || name.starts_with("python")) slurm = false;
    if (!is_flag(w)) {
      ++i;
      continue;
    }
    const std::size_t equal = w.find('=');
    const std::string key = plain(std::string_view(w).substr(0, equal));
    if (!found && !slurm && !is_of_launchers(key)) return i;
    ShellText value;
    if (equal != std::string::npos) {
      for (std::size_t k = equal + 1; k < w.size(); ++k) value.add(w[k], words[i].at[k]);
      ++i;
    } else if (!is_switch(key) && i + 1 < program && !is_flag(words[i + 1].chars)) {
      value = words[i + 1];
      i += 2;
    } else {
      ++i;
    }
    if (key != "m") flag(key, value, slurm);
  }
  return program;
}

void Launcher::read_sbatch() {
  std::size_t at = 0;
  while ((at = text_.find("#SBATCH", at)) != std::string::npos) {
    const std::size_t stop = std::min(text_.find('\n', at), text_.size());
    std::vector<ShellText> words;
    for (const ShellWord& w : shell_words(text_, static_cast<std::uint32_t>(at + 7), static_cast<std::uint32_t>(stop)))
      for (ShellText& t : values_.expand(w)) words.push_back(std::move(t));
    at = stop;
    if (words.empty()) continue;
    const std::string& w = words.front().chars;
    const std::size_t equal = w.find('=');
    ShellText value;
    if (equal != std::string::npos)
      for (std::size_t k = equal + 1; k < w.size(); ++k) value.add(w[k], words.front().at[k]);
    else if (words.size() > 1)
      value = words[1];
    const std::string name = plain(std::string_view(w).substr(0, equal));
    static constexpr std::array<std::string_view, 8> sizes{
        "N", "nodes", "n", "ntasks", "ntasks_per_node", "gpus_per_node", "gres", "gpus"};
    if (std::find(sizes.begin(), sizes.end(), name) != sizes.end()) flag(name, value, true);
  }
}

std::optional<ShellText> Launcher::product(const std::optional<ShellText>& a, const std::optional<ShellText>& b) {
  if (!a || !b) return a ? a : b;
  const auto x = number(*a), y = number(*b);
  if (x && y && *x > 0 && *y > 0 && *x < (1 << 24) && *y < (1 << 24)) return digits(*x * *y, *a);
  return x ? b : a;
}

std::optional<ShellText> Launcher::of_variables() {
  const auto first = [&](std::initializer_list<const char*> names) -> std::optional<ShellText> {
    for (const char* name : names) {
      if (values_.has(name)) return values_.value(name);
    }
    return std::nullopt;
  };
  const auto nodes = first({"NNODES", "NUM_NODES", "N_NODES"});
  const auto per_node = first({"GPUS_PER_NODE", "NPROC_PER_NODE", "NUM_GPUS_PER_NODE"});
  const auto world = first({"WORLD_SIZE", "NUM_GPUS"});
  if (world && world->is_known()) return world;
  if (nodes && per_node) return product(nodes, per_node);
  return world ? world : per_node;
}

LauncherSays Launcher::says() {
  read_sbatch();
  LauncherSays out;
  out.others = std::move(others_);
  const bool torch = per_node_ || nodes_;
  if (torch) {
    if (nodes_ && !nodes_->is_known() && slurm_nodes_) nodes_ = slurm_nodes_;
    if (!per_node_ && slurm_per_node_) per_node_ = slurm_per_node_;
    out.gpus = product(per_node_, nodes_);
  } else if (all_ && !launches_) {
    out.gpus = all_;
  } else if (slurm_per_node_) {
    out.gpus = product(slurm_per_node_, slurm_nodes_);
  } else {
    out.gpus = of_variables();
  }
  return out;
}

}  // namespace orrery
