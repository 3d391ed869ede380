#include "core/program/lower/pipeline_transfers.hpp"

namespace orrery::lowering {

std::vector<StageAction> with_transfers(const std::vector<ComputeAction>& order, std::uint32_t stage,
                                        std::uint32_t stages) {
  using Phase = ComputeAction::Phase;
  using Kind = StageAction::Kind;
  const bool first = stage == 0;
  const bool last = stage + 1 == stages;
  std::vector<StageAction> out;
  out.reserve(order.size() * 3);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const ComputeAction& now = order[i];
    const bool after_backward = i > 0 && order[i - 1].phase == Phase::backward;
    if (now.phase == Phase::forward) {
      if (!first) out.push_back({Kind::receive_hidden, now.microbatch});
      if (!first && after_backward) out.push_back({Kind::send_gradient, order[i - 1].microbatch});
      out.push_back({Kind::forward, now.microbatch});
      if (!last) out.push_back({Kind::send_hidden, now.microbatch});
    } else {
      if (!last) out.push_back({Kind::receive_gradient, now.microbatch});
      out.push_back({Kind::backward, now.microbatch});
      const bool turns = i + 1 < order.size() && order[i + 1].phase == Phase::forward;
      if (!first && !turns) out.push_back({Kind::send_gradient, now.microbatch});
    }
  }
  return out;
}

TransferBlocks build_transfers(Context& c, const ModelBlocks& model, std::uint32_t stage) {
  TransferBlocks blocks;
  const auto build = [&](const char* name, bool send, std::uint32_t peer, std::uint8_t channel, TransferLane lane,
                         BufferId buffer) {
    BlockBuilder b(c.program, std::string(name) + ".stage" + std::to_string(stage),
                   channel == 0 ? Pass::forward : Pass::input_gradient);
    if (!send) b.alloc(buffer);
    const View::Use use = send ? View::Use::read : View::Use::write;
    b.transfer(send, c.pipeline_group, Peer{peer}, channel, lane, {buffer, use, 0, 0, 0, {}});
    if (send) b.free(buffer);
    return b.finish();
  };
  if (stage > 0) {
    blocks.receive_hidden =
        build("receive.hidden", false, stage - 1, 0, TransferLane::forward_receive, model.hidden);
    blocks.send_gradient =
        build("send.gradient", true, stage - 1, 1, TransferLane::backward_send, model.hidden_gradient);
  }
  if (stage + 1 < c.stages) {
    blocks.send_hidden = build("send.hidden", true, stage + 1, 0, TransferLane::forward_send, model.hidden);
    blocks.receive_gradient =
        build("receive.gradient", false, stage + 1, 1, TransferLane::backward_receive, model.hidden_gradient);
  }
  return blocks;
}

}  // namespace orrery::lowering
