#pragma once

#include <map>
#include <string>
#include <vector>

#include "exec/checkpoint/generations.hpp"
#include "tests/support/program_run.hpp"

namespace orrery::test {

/// A plan of a tiny model on 8 ranks in double precision, and room for its checkpoints.
class SupervisedPlan {
 public:
  explicit SupervisedPlan(const std::string& learning_rate = "0.01", const std::string& sequence = "8") {
    write(folder_.file("model.toml"),
          "schema = 1\n[model]\nname = \"small\"\nlayers = 2\nhidden = 16\nheads = 4\nffn = 32\nvocabulary = 30\n"
          "max_positions = " +
              sequence +
              "\nnorm = \"layer_norm\"\nactivation = \"gelu\"\npositions = \"learned\"\n"
              "bias = true\ntied_embeddings = true\n");
    write(plan(),
          "schema = 1\nname = \"small\"\nmodel = \"model.toml\"\ncluster = \"local-cpu\"\ngpus = 8\n"
          "[workload]\nbatch = 8\nsequence = " +
              sequence +
              "\nprecision = \"fp64\"\n[workload.optimizer]\n"
              "kind = \"adam\"\nlearning_rate = " +
              learning_rate +
              "\n[mesh]\norder = [\"pipeline\", \"data\", \"tensor\"]\npipeline = 2\ndata = 2\ntensor = 2\n"
              "[plan]\nmicrobatch_size = 2\n");
  }
  [[nodiscard]] std::string plan() const { return folder_.file("plan.toml"); }
  [[nodiscard]] std::string file(const std::string& name) const { return folder_.file(name); }

 private:
  TemporaryFolder folder_;
};

/// The rank files of a folder's newest checkpoint, one after the other: the whole state.
inline std::string newest_state(const std::string& folder) {
  std::string newest, all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    newest = std::max(newest, entry.path().string());
  }
  for (int r = 0; std::filesystem::exists(newest + "/rank-0000" + std::to_string(r) + ".bin"); ++r) {
    all += contents(newest + "/rank-0000" + std::to_string(r) + ".bin");
  }
  return all;
}

/// The bytes of what a checkpoint holds ("weights"), by rank, tensor and place in it.
inline std::map<std::string, std::vector<std::byte>> parts_of(const std::string& folder, const std::string& what) {
  std::map<std::string, std::vector<std::byte>> found;
  const auto files = system_files();
  NewestWhole newest = newest_whole(*files, folder);
  if (!newest.checkpoint) return found;
  std::vector<RankFileReader>& readers = newest.checkpoint->files;
  for (std::size_t r = 0; r < readers.size(); ++r) {
    for (std::size_t i = 0; i < readers[r].parts().size(); ++i) {
      const StatePart& part = readers[r].parts()[i];
      if (part.what != what) continue;
      std::vector<std::byte>& bytes = found[std::to_string(r) + " " + part.tensor + " " +
                                            std::to_string(part.slice.first) + " " + std::to_string(i)];
      bytes.resize(bytes_of(part));
      readers[r].read(i, 0, bytes);
    }
  }
  return found;
}

}  // namespace orrery::test
