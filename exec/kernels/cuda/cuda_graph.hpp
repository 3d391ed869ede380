#pragma once

#include <memory>
#include <span>
#include <vector>

#include "exec/kernels/cuda/cuda_stream.hpp"

namespace orrery::cuda {

/// Gathers by stream capture, from the first stream: the other streams' work comes after a mark in it, and its end
/// after theirs. The executable graph is kept, and gets new arguments (steps, addresses) as long as the shape is the
/// same.
class Graph final : public DeviceGraph {
 public:
  ~Graph() override {
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
  }
  void begin(std::span<DeviceStream* const> streams) override {
    streams_.clear();
    for (DeviceStream* s : streams) streams_.push_back(static_cast<Stream*>(s));
    while (marks_.size() < streams_.size()) marks_.push_back(std::make_unique<Event>());
    // The mode is relaxed: this thread may take memory meanwhile, and other threads are not restricted.
    require(cudaStreamBeginCapture(queue(0), cudaStreamCaptureModeRelaxed), "begin a graph");
    require(cudaEventRecord(marks_[0]->get(), queue(0)), "begin a graph");
    for (std::size_t i = 1; i < streams_.size(); ++i) {
      require(cudaStreamWaitEvent(queue(i), marks_[0]->get(), 0), "begin a graph");
    }
    for (Stream* s : streams_) s->gather(true);
  }
  bool launch() override {
    for (Stream* s : streams_) s->gather(false);
    for (std::size_t i = 1; i < streams_.size(); ++i) {
      require(cudaEventRecord(marks_[i]->get(), queue(i)), "end a graph");
      require(cudaStreamWaitEvent(queue(0), marks_[i]->get(), 0), "end a graph");
    }
    cudaGraph_t gathered = nullptr;
    require(cudaStreamEndCapture(queue(0), &gathered), "end a graph");
    bool anew = graph_ == nullptr;
    if (!anew) {
      cudaGraphExecUpdateResultInfo ignored{};
      if (cudaGraphExecUpdate(graph_, gathered, &ignored) != cudaSuccess) {
        static_cast<void>(cudaGetLastError());  // another shape
        cudaGraphExecDestroy(graph_);
        graph_ = nullptr;
        anew = true;
      }
    }
    const cudaError_t made = anew ? cudaGraphInstantiate(&graph_, gathered, 0) : cudaSuccess;
    cudaGraphDestroy(gathered);
    if (made != cudaSuccess) graph_ = nullptr;
    require(made, "build a graph");
    require(cudaGraphLaunch(graph_, queue(0)), "launch a graph");
    for (Stream* s : streams_) s->launched();
    return anew;
  }
  void drop() noexcept override {
    for (Stream* s : streams_) s->gather(false);
    cudaGraph_t gathered = nullptr;
    static_cast<void>(cudaStreamEndCapture(queue(0), &gathered));
    static_cast<void>(cudaGetLastError());
    if (gathered != nullptr) cudaGraphDestroy(gathered);
    for (Stream* s : streams_) s->dropped();
  }

 private:
  [[nodiscard]] cudaStream_t queue(std::size_t i) const { return static_cast<cudaStream_t>(streams_[i]->native()); }

  std::vector<Stream*> streams_;
  std::vector<std::unique_ptr<Event>> marks_;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace orrery::cuda
