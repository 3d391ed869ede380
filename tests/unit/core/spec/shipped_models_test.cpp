#include <catch2/catch.hpp>

#include "core/spec/library.hpp"

// Parameters that the classes of Hugging Face's transformers 5.24.0 have, with tied weights once, for the sizes that
// the models' makers publish: counted there by building each class without memory.

using namespace orrery;

TEST_CASE("shipped models have the parameters that the library's class gives them", "[unit][library]") {
  const std::pair<const char*, std::uint64_t> counted[] = {
      {"llama-7b", 6'738'415'616},
      {"llama-13b", 13'015'864'320},
      {"llama-33b", 32'528'943'616},
      {"llama-3.2-1b", 1'235'814'400},
      {"llama-3.2-3b", 3'212'749'824},
      {"llama-3.1-8b", 8'030'261'248},
      {"llama-3.1-70b", 70'553'706'496},
      {"llama-3.1-405b", 405'853'388'800},
      {"tinyllama-1.1b", 1'100'048'384},
      {"codellama-34b", 33'743'970'304},
      {"yi-1.5-34b", 34'388'917'248},
      {"smollm2-1.7b", 1'711'376'384},
      {"mistral-7b", 7'248'023'552},
      {"mistral-nemo-12b", 12'247'782'400},
      {"mistral-small-24b", 23'572'403'200},
      {"mistral-large-123b", 122'610'069'504},
      {"qwen2.5-0.5b", 494'032'768},
      {"qwen2.5-1.5b", 1'543'714'304},
      {"qwen2.5-3b", 3'085'938'688},
      {"qwen2.5-7b", 7'615'616'512},
      {"qwen2.5-14b", 14'770'033'664},
      {"qwen2.5-32b", 32'763'876'352},
      {"qwen2.5-72b", 72'706'203'648},
      {"qwen3-0.6b", 596'049'920},
      {"qwen3-1.7b", 1'720'574'976},
      {"qwen3-4b", 4'022'468'096},
      {"qwen3-8b", 8'190'735'360},
      {"qwen3-14b", 14'768'307'200},
      {"qwen3-32b", 32'762'123'264},
      {"qwen3-30b-a3b", 30'532'122'624},
      {"qwen3-235b-a22b", 235'093'634'560},
      {"qwen3-coder-480b-a35b", 480'154'875'392},
      {"gemma-2b", 2'506'172'416},
      {"gemma-7b", 8'537'680'896},
      {"gemma-2-2b", 2'614'341'888},
      {"gemma-2-9b", 9'241'705'984},
      {"gemma-2-27b", 27'227'128'320},
      {"gemma-3-1b", 999'885'952},
      {"gemma-3-4b", 3'880'263'168},
      {"gemma-3-12b", 11'766'034'176},
      {"gemma-3-27b", 27'009'346'304},
      {"phi-2", 2'779'683'840},
      {"phi-3-mini-3.8b", 3'821'079'552},
      {"phi-4-14b", 14'659'507'200},
      {"phi-3.5-moe", 41'873'153'344},
      {"olmo-2-7b", 7'298'617'344},
      {"olmo-2-13b", 13'716'198'400},
      {"olmo-2-32b", 32'234'279'936},
      {"olmo-3-7b", 7'298'011'136},
      {"olmo-3-32b", 32'233'522'176},
      {"kimi-k2", 1'026'408'209'408},
      {"glm-4.5-355b-a32b", 352'797'814'784},
      {"glm-4.5-air-106b-a12b", 106'852'245'504},
      {"glm-4-9b", 9'399'951'360},
      {"gpt-oss-20b", 20'914'757'184},
      {"gpt-oss-120b", 116'829'156'672},
      {"granite-3.1-8b", 8'170'848'256},
      {"command-r-35b", 34'980'831'232},
      {"command-r7b", 8'028'033'024},
      {"falcon-7b", 6'921'720'704},
      {"falcon-40b", 41'303'293'952},
      {"gpt-neox-20b", 20'554'567'680},
      {"pythia-6.9b", 6'857'302'016},
      {"gpt-j-6b", 6'050'882'784},
      {"bloom-176b", 176'247'271'424},
      {"bloom-7b1", 7'069'016'064},
      {"opt-1.3b", 1'315'758'080},
      {"opt-6.7b", 6'658'473'984},
      {"opt-175b", 174'604'468'224},
      {"mpt-7b", 6'649'286'656},
      {"starcoder2-15b", 15'957'889'024},
      {"starcoder-15b", 15'517'456'384},
      {"nemotron-4-15b", 15'628'775'424},
      {"nemotron-4-340b", 341'029'195'776},
      {"minimax-m2", 228'689'748'992},
      {"dbrx-132b", 131'596'523'520},
      {"smollm3-3b", 3'075'098'624},
      {"seed-oss-36b", 36'151'104'512},
      {"exaone-4-32b", 32'003'216'384},
      {"llama-4-scout-109b-a17b", 107'769'861'120},
      {"llama-4-maverick-400b-a17b", 400'711'848'960},
      {"qwen2-57b-a14b", 57'408'658'944},
      {"olmoe-7b-a1b", 6'919'161'856},
  };
  const Library library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models");
  for (const auto& [name, count] : counted) {
    CAPTURE(name);
    Diagnostics d;
    const auto model = library.model(name, ".", d);
    CHECK(render(d) == "");
    REQUIRE(model);
    CHECK(model->name == name);
    CHECK(parameter_count(*model) == count);
  }
}
