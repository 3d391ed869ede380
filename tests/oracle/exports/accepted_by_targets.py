#!/usr/bin/env python3
"""Holds what `orrery export` writes to the parsers of the programs that it is for.

    accepted_by_targets.py ORRERY [TARGET ...]

Each target whose package can be imported reads the files of a few dozen plans with its own configuration class:
accelerate (load_config_from_file), deepspeed (DeepSpeedConfig), torchtitan (v0.2, ConfigManager).  What the parser
took is compared with the plan, too: sizes of axes, microbatch, stage of ZeRO.  Exits with 77 (skipped) where none of
the packages is installed, with 1 where a file is refused or means something else.
"""

import contextlib
import importlib.metadata
import io
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

MODEL, GPUS, BATCH, SEQUENCE = "llama-3-8b", 16, 64, 8192


def words_of(**keys):
    return " ".join(f"{key}={value}" for key, value in keys.items() if value is not None)


def accelerate_plans():
    for replica, microbatch, recompute, reshard in itertools.product((1, 2), (1, 2), ("none", "full"), ("on", "off")):
        yield words_of(dp=GPUS // replica, replica=replica if replica > 1 else None, zero=3, mbs=microbatch,
                       recompute=recompute, reshard_after_forward=reshard)


def deepspeed_plans():
    for zero, microbatch, states in itertools.product((0, 1, 2, 3), (1, 2, 4), (None, "all")):
        if zero or states is None:
            yield words_of(dp=GPUS, zero=zero, mbs=microbatch, offload_states=states,
                           overlap_gradients=None if zero else "off")


def torchtitan_plans():
    for tensor, pipeline, context in itertools.product((1, 2, 4), (1, 2), (1, 2)):
        data = GPUS // tensor // pipeline // context
        for recompute in ("none", "full"):
            yield words_of(dp=data, tp=tensor, pp=pipeline, cp=context, zero=3, mbs=1, recompute=recompute,
                           sequence_parallel="on" if tensor > 1 else None,
                           context="all_gather" if context > 1 else None, zigzag="on" if context > 1 else None)


def read_accelerate(path, plan):
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import launch_command_parser
    config = load_config_from_file(str(path))
    parsed = launch_command_parser().parse_args(["--config_file", str(path), "train.py"])
    assert parsed.config_file == str(path)
    assert config.num_processes == GPUS, (config.num_processes, GPUS)
    fsdp = config.fsdp_config
    assert fsdp.get("fsdp_activation_checkpointing", False) == (plan.get("recompute") == "full"), fsdp


def read_deepspeed(path, plan):
    from deepspeed import comm
    from deepspeed.runtime.config import DeepSpeedConfig
    comm.get_rank, comm.get_world_size = lambda: 0, lambda: GPUS  # as a launched process would know them
    config = DeepSpeedConfig(json.loads(path.read_text()))
    assert config.zero_optimization_stage == int(plan["zero"]), config.zero_optimization_stage
    assert config.train_micro_batch_size_per_gpu == int(plan["mbs"]), config.train_micro_batch_size_per_gpu
    offload = config.zero_config.offload_optimizer
    assert (offload is not None and str(offload.device).endswith("cpu")) == ("offload_states" in plan), offload


def read_torchtitan(path, plan):
    from torchtitan.config import ConfigManager
    config = ConfigManager().parse_args([f"--job.config_file={path}"])
    degrees = config.parallelism
    assert degrees.tensor_parallel_degree == int(plan["tp"]), degrees
    assert degrees.pipeline_parallel_degree == int(plan["pp"]), degrees
    assert degrees.context_parallel_degree == int(plan["cp"]), degrees
    assert degrees.data_parallel_shard_degree in (-1, int(plan["dp"])), degrees
    assert config.training.seq_len == SEQUENCE, config.training.seq_len
    assert config.training.global_batch_size == BATCH, config.training.global_batch_size
    assert (config.activation_checkpoint.mode == "none") == (plan["recompute"] == "none"), config.activation_checkpoint


TARGETS = {
    "accelerate": ("accelerate", ".yaml", accelerate_plans, read_accelerate),
    "deepspeed": ("deepspeed", ".json", deepspeed_plans, read_deepspeed),
    "torchtitan": ("torchtitan.config", ".toml", torchtitan_plans, read_torchtitan),
}


def main():
    orrery, wanted = sys.argv[1], sys.argv[2:] or list(TARGETS)
    tried, failed = 0, []
    for target in wanted:
        module, ending, plans, read = TARGETS[target]
        try:
            __import__(module)
        except ImportError as absent:
            print(f"{target}: left out ({absent})")
            continue
        if target == "torchtitan" and not (there := importlib.metadata.version(target)).startswith("0.2."):
            print(f"{target}: left out (files are for v0.2, and {there} is installed)")
            continue
        accepted = refused = 0
        with tempfile.TemporaryDirectory() as folder:
            for words in plans():
                path = pathlib.Path(folder) / f"launch{ending}"
                path.unlink(missing_ok=True)
                whole = f"{words} gbs={BATCH} seq={SEQUENCE}"
                command = [orrery, "export", whole, "--model", MODEL, "--cluster", f"h200:{GPUS}", "--to", target,
                           "-o", str(path)]
                written = subprocess.run(command, capture_output=True, text=True, check=False)
                if "[export." in written.stderr:
                    refused += 1  # what the target cannot say
                    print(f"{target}: {words}: {written.stderr.splitlines()[0]}")
                    continue
                if written.returncode != 0:
                    failed.append(f"{target}: {words}: {written.stderr.strip()}")
                    continue
                try:
                    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                        read(path, dict(word.split("=") for word in words.split()))
                    accepted += 1
                except (Exception, SystemExit) as wrong:  # whatever the program's parser throws
                    failed.append(f"{target}: {words}: {type(wrong).__name__}: {wrong}")
        tried += 1
        print(f"{target}: {accepted} accepted, {refused} refused by orrery")
        if accepted == 0:
            failed.append(f"{target}: no plan was written")
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0 if tried else 77


if __name__ == "__main__":
    sys.exit(main())
