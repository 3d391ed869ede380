"""The compiled part. Names for people are in the package `orrery`."""

from collections.abc import Callable
from typing import Any

class NamedModel:
    @staticmethod
    def named(reference: str) -> NamedModel: ...
    @staticmethod
    def written(text: str, file: str) -> NamedModel: ...
    name: str
    reference: str
    parameters: int
    def text(self) -> str: ...

class NamedCluster:
    @staticmethod
    def named(reference: str, gpus: int | None, nic: str | None) -> NamedCluster: ...
    @staticmethod
    def written(text: str, file: str, gpus: int | None) -> NamedCluster: ...
    name: str
    reference: str
    gpus: int
    def text(self) -> str: ...

class WrittenWorkload:
    @staticmethod
    def written(text: str) -> WrittenWorkload: ...
    def text(self) -> str: ...

class Flags:
    gpus: int | None
    calibration: str | None
    software: str
    price: str | None
    nic: str | None
    lanes: str
    expandable_segments: bool
    model: str | None
    set: list[str]
    nearest: bool

class Run:
    @staticmethod
    def made(
        model: NamedModel, cluster: NamedCluster, workload: WrittenWorkload, words: str, name: str
    ) -> Run: ...
    @staticmethod
    def loaded(reference: str, flags: Flags, cluster: str | None) -> Run: ...
    @staticmethod
    def parsed(text: str, file: str, gpus: int | None) -> Run: ...
    def with_words(self, words: str) -> Run: ...
    def renamed(self, name: str, framework: str) -> Run: ...
    def on_cluster(self, cluster: NamedCluster) -> Run: ...
    def check(self) -> list[tuple[Any, ...]]: ...
    def text(self) -> str: ...
    def workload_text(self) -> str: ...
    name: str
    framework: str
    model_reference: str
    cluster_reference: str
    ranks: int
    model: NamedModel
    cluster: NamedCluster | None

class Estimate:
    step_time_s: float
    tokens_per_s: float
    tokens_per_s_per_gpu: float
    model_flops_utilization: float
    fits: bool
    def text(self) -> str: ...

def estimate(run: Run, flags: Flags) -> Estimate: ...
def command(
    arguments: list[str], progress: Callable[[str, int, int, str], object] | None
) -> tuple[int, bytes, bytes, list[tuple[Any, ...]], str]: ...
def dimensions() -> list[tuple[str, list[str], str, str, list[str], int, int]]: ...
def set_data_folder(folder: str) -> None: ...
def version() -> str: ...
def commit() -> str: ...
