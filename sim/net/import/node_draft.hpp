#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/net/import/source.hpp"

namespace orrery::importing {

/// A node while its devices are found: vertices have names, and GPUs and NICs get numbers in the end.
class NodeDraft {
 public:
  struct Nic {
    std::string name;
    std::optional<Bandwidth> port;  ///< to the network
    std::string label = {};         ///< as the file calls it
  };
  void gpu(std::string name) { gpus_.push_back(std::move(name)); }
  void nic(Nic nic) { nics_.push_back(std::move(nic)); }
  void wire(std::string a, std::string b, Link link) { wires_.push_back({std::move(a), std::move(b), link}); }
  /// Whether the user leaves a NIC of the file out; finish() finds those that were never asked for.
  [[nodiscard]] bool leaves_out(const ImportOptions&, const std::string& label);
  [[nodiscard]] const std::vector<std::string>& gpus() const { return gpus_; }
  [[nodiscard]] const std::vector<Nic>& nics() const { return nics_; }

  /// GPU i becomes gpu<i>. NICs are put in the order of the GPUs that they are nearest to, since GPU g of m uses NIC
  /// number g n / m of n. Where there are more NICs than GPUs, those of a GPU are taken together. With several nodes a
  /// switch joins all NICs. `where` is the place of mistakes about the whole.
  [[nodiscard]] std::optional<FabricSpec> finish(Source&, const ImportOptions&, Position where);

 private:
  struct Cable {
    std::string a, b;
    Link link;
  };
  using Hops = std::vector<std::vector<std::uint32_t>>;  // [gpu][nic]
  [[nodiscard]] std::vector<std::uint32_t> hops_from(const std::string& gpu) const;
  [[nodiscard]] std::vector<std::size_t> far_nics(const Hops&) const;
  [[nodiscard]] std::string labels_of(const std::vector<std::size_t>& nics) const;
  void leave_out(const std::vector<std::size_t>& nics);
  bool arrange_nics(Source&, Position where);
  bool bundle_nics(const Hops&, Source&, Position where);

  std::vector<std::string> gpus_;
  std::vector<Nic> nics_;
  std::vector<Cable> wires_;
  std::set<std::string> left_out_;
};

}  // namespace orrery::importing
