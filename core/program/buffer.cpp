#include "core/program/buffer.hpp"

namespace orrery {

std::string_view name_of(Init init) {
  switch (init) {
    case Init::zeros: return "zeros";
    case Init::ones: return "ones";
    case Init::normal: return "normal";
  }
  return "";
}

std::string_view name_of(Role role) {
  switch (role) {
    case Role::weight: return "weight";
    case Role::gradient: return "gradient";
    case Role::master: return "master";
    case Role::moment: return "moment";
    case Role::activation: return "activation";
    case Role::statistic: return "statistic";
    case Role::workspace: return "workspace";
    case Role::data: return "data";
    case Role::scalar: return "scalar";
  }
  return "";
}

std::string_view name_of(Scope scope) {
  switch (scope) {
    case Scope::stage: return "stage";
    case Scope::layer: return "layer";
    case Scope::microbatch: return "microbatch";
    case Scope::layer_microbatch: return "layer_microbatch";
  }
  return "";
}

bool of_adapters(const ParameterTable& table) { return table.module == "layer.adapters"; }

bool of_base(const ParameterTable& table) { return table.module.starts_with("base."); }

bool of_layers(const ParameterTable& table) {
  return of_adapters(table) || of_base(table) || table.module == "layer" || table.module == "layer.dense" ||
         table.module == "prediction";
}

std::string parameter_name(const ParameterTable& table, const ParameterSlice& slice, std::uint32_t layer) {
  if (slice.name.starts_with("embedding.")) return slice.name;
  if (of_layers(table)) return "layers." + std::to_string(layer) + "." + slice.name;
  return table.module + "." + slice.name;
}

}  // namespace orrery
