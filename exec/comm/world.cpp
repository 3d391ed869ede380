#include "exec/comm/world.hpp"

namespace orrery {

std::string waited_text(Rank who, Rank whom, double seconds) {
  std::string text = std::to_string(seconds);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return "rank " + std::to_string(index(who)) + " has waited " + text + " s for rank " + std::to_string(index(whom));
}

std::string ended_text(Rank who, Rank whom) {
  return "rank " + std::to_string(index(who)) + " waits for rank " + std::to_string(index(whom)) + ", which has ended";
}

}  // namespace orrery
