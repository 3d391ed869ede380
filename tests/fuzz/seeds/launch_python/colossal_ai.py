from colossalai.booster.plugin import HybridParallelPlugin

plugin = HybridParallelPlugin(
    tp_size=2,
    pp_size=2,
    zero_stage=1,
    precision="bf16",
    microbatch_size=1,
    pp_style="1f1b",
)
