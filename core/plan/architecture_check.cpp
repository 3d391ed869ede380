#include "core/plan/architecture_check.hpp"

#include <fmt/format.h>

#include <numeric>

#include "core/plan/nearest_plan.hpp"
#include "core/plan/plan_names.hpp"

namespace orrery {
namespace {

struct Check {
  const Plan& plan;
  const ModelSpec& m;
  const Workload& workload;
  Diagnostics& out;

  void error(const std::string& key, const char* code, std::string message, std::vector<std::string> details) const {
    out.error(plan.origin, key, std::string("plan.") + code, std::move(message), std::move(details));
  }
  [[nodiscard]] std::string name() const { return m.name.empty() ? "the model" : m.name; }

  void latent() const {
    if (plan.tensor != TensorAlgorithm::three_d) return;
    error("plan.tensor", "architecture-tensor", "latent attention gains nothing from 3d tensor parallelism",
          {fmt::format("3d products move sequences from rows to columns. The narrow vectors of {} are whole on every "
                       "rank of a row:",
                       name()),
           "they would be gathered over both, many times what 2.5d moves of them, and no tensor would be smaller.",
           "Nearest valid: tensor = \"2.5d\"."});
  }

  void image() const {
    if (const std::uint32_t n = plan.mesh.size(Axis::context); n != 1) {
      error("mesh.context", "architecture-context", "a vision transformer cannot be cut along a context axis",
            {fmt::format("context is {}; {} is a vision transformer.", n, name()),
             m.image->class_token
                 ? "All ranks of the axis do the same ops on equal parts, but only the first part would have the class "
                   "token."
                 : "Its head sees the mean of all patches, and ranks do not add up theirs.",
             "Set context to 1 in [mesh], or raise data or tensor."});
    }
    const std::uint64_t patches = patch_count(*m.image), tokens = image_positions(*m.image);
    if (m.image->pool == Image::Pool::class_and_mean && plan.tensor != TensorAlgorithm::one_d) {
      error("plan.tensor", "image-pool", "a head that sees class token and mean is not cut on a grid of ranks",
            {fmt::format("tensor is \"{}\"; the head of {} has a matrix for each, and a grid does not add their "
                         "products.",
                         name_of(plan.tensor), name()),
             "Nearest valid: tensor = \"1d\"."});
    }
    if (workload.sequence_length != tokens) {
      error("workload.sequence", "image-sequence",
            m.image->class_token ? "the sequence is not the class token plus the patches of an image"
                                 : "the sequence is not the patches of an image",
            {fmt::format("sequence is {}; an image of {} x {} has {} patches of {} x {}.", workload.sequence_length,
                         m.image->size, m.image->size, patches, m.image->patch, m.image->patch),
             fmt::format("Set sequence to {}.", tokens)});
    }
    const std::uint64_t t = plan.mesh.size(Axis::tensor), width = patch_width(*m.image);
    if (plan.tensor == TensorAlgorithm::one_d && t > 0 && width % t != 0) {
      error("mesh.tensor", "tensor-patch", "the tensor size does not divide the values of a patch",
            {fmt::format("A patch has {0} values, and {0} / {1} leaves {2}.", width, t, width % t),
             nearest_divisors(std::gcd(width, std::gcd(m.heads, m.ffn)), t, "tensor sizes")});
    }
    if (!workload.data.empty()) {
      error("workload.data", "image-data", "a vision transformer is not trained on text",
            {fmt::format("{} takes images, and these are made up.", name()), "Leave data out."});
    }
  }
};

}  // namespace

void check_architecture(const Plan& plan, const ModelSpec& m, const Workload& workload, Diagnostics& out) {
  const Check c{plan, m, workload, out};
  switch (m.architecture) {
    case Architecture::decoder:
    case Architecture::bert: break;
    case Architecture::vit:
      if (m.image && m.image->patch > 0) c.image();
      break;
  }
  if (m.latent) c.latent();
}

}  // namespace orrery
