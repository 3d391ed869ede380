#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/net/import/source.hpp"

namespace orrery::importing {

/// A node while its devices are found: vertices by name, GPUs and NICs numbered in the end.
class NodeDraft {
 public:
  struct Nic {
    std::string name;
    std::optional<Bandwidth> port;  ///< to the network
  };
  void gpu(std::string name) { gpus_.push_back(std::move(name)); }
  void nic(Nic nic) { nics_.push_back(std::move(nic)); }
  void wire(std::string a, std::string b, Link link) { wires_.push_back({std::move(a), std::move(b), link}); }
  [[nodiscard]] const std::vector<std::string>& gpus() const { return gpus_; }
  [[nodiscard]] const std::vector<Nic>& nics() const { return nics_; }

  /// GPU i becomes gpu<i>.  NICs are put in the order of the GPUs that they are nearest to, since GPU g of m uses
  /// number g n / m of n; where there are more NICs than GPUs, those of a GPU are taken together.  With several
  /// nodes a switch joins all NICs.  `where`: of what is wrong with the whole.
  [[nodiscard]] std::optional<FabricSpec> finish(Source&, const ImportOptions&, Position where);

 private:
  struct Cable {
    std::string a, b;
    Link link;
  };
  [[nodiscard]] std::vector<std::uint32_t> hops_from(const std::string& gpu) const;
  bool arrange_nics(Source&, Position where);

  std::vector<std::string> gpus_;
  std::vector<Nic> nics_;
  std::vector<Cable> wires_;
};

}  // namespace orrery::importing
