#include "framework/rooms.hpp"

namespace orrery {

Framework llama_factory() {
  return {.name = "llama-factory", .title = "LLaMA-Factory", .software = "", .abilities = ""};
}

}  // namespace orrery
