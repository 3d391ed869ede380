#include "exec/checkpoint/reshard.hpp"

#include "exec/checkpoint/restore.hpp"

namespace orrery {

SavedCheckpoint reshard(Checkpoint& from, FileSystem& files, const std::filesystem::path& folder,
                        const Program& program, Manifest manifest) {
  SavedCheckpoint saved;
  saved.step = manifest.step;
  saved.name = begin_checkpoint(files, folder, saved.step);
  const auto written = written_parts(program);
  manifest.ranks.clear();
  for (std::uint32_t r = 0; r < program.mesh.size(); ++r) {
    const StateMemory memory(program, {Rank{r}});
    restore(from, program, {Rank{r}}, memory);
    manifest.ranks.push_back(write_rank_file(files, folder, saved.name, saved.step, Rank{r}, written[r], memory));
    saved.bytes += manifest.ranks.back().bytes;
  }
  finish_checkpoint(files, folder, saved.name, manifest, generations(files, folder));
  return saved;
}

}  // namespace orrery
