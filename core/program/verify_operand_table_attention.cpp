#include "core/program/verify_operand_table.hpp"

namespace orrery::verifying {

void KernelTable::attention() {
  const double tokens = static_cast<double>(k_.rows);
  const double value = k_.value_dim > 0 ? k_.value_dim : k_.head_dim;  // of MLA, not that of keys
  const double query = tokens * k_.heads * k_.head_dim;
  const double context = tokens * k_.heads * value;
  const double qkv = query + tokens * k_.kv_heads * (k_.head_dim + value);
  const double scores = k_.batch == 0 ? 0.0 : tokens / k_.batch * tokens * k_.heads;
  const double pair = k_.kv_heads * (k_.head_dim + value);
  const double own = tokens * pair;
  const double brought = static_cast<double>(k_.depth) * pair;
  const double brought_keys = static_cast<double>(k_.depth) * k_.kv_heads * k_.head_dim;
  const double brought_scores = k_.batch == 0 ? 0.0 : tokens / k_.batch * static_cast<double>(k_.depth) * k_.heads;
  const bool dropout = k_.options.dropout;
  switch (k_.kind) {
    case KernelKind::rope_forward: a("qkv", qkv); break;
    case KernelKind::rope_backward: a("dqkv", qkv); break;
    case KernelKind::attention_unfused_forward:
      r("qkv", qkv), w("context", context), w("probabilities", scores);
      if (dropout) w("mask", scores), w("dropped", scores);
      break;
    case KernelKind::attention_unfused_backward:
      r("dcontext", context), r("qkv", qkv), r("probabilities", scores);
      if (dropout) r("mask", scores), r("dropped", scores);
      w("dqkv", qkv), w("dscores", scores);
      break;
    case KernelKind::attention_flash_forward: r("qkv", qkv), w("context", context), w("lse", tokens * k_.heads); break;
    case KernelKind::attention_flash_backward:
      r("dcontext", context), r("qkv", qkv), r("context", context), r("lse", tokens * k_.heads);
      w("dqkv", qkv), w("dq accumulator", query);
      break;
    case KernelKind::latent_heads_forward:
    case KernelKind::latent_heads_backward: {
      const double key = tokens * static_cast<double>(k_.columns), pairs = qkv - query - k_.heads * key;
      if (k_.kind == KernelKind::latent_heads_forward) {
        r("queries", query), r("pairs", pairs), r("key", key), w("qkv", qkv);
      } else {
        r("dqkv", qkv), w("dqueries", query), w("dpairs", pairs), w("dkey", key);
      }
      break;
    }
    case KernelKind::pack_keys_values: r("qkv", qkv), w("kv", own); break;
    case KernelKind::attention_part_forward:
      r("qkv", qkv), r("kv", brought), w("context", context), w("lse", tokens * k_.heads);
      break;
    case KernelKind::attention_part_backward:
      r("dcontext", context), r("qkv", qkv), r("kv", brought), r("context", context), r("lse", tokens * k_.heads);
      w("dq", query), w("dkv", brought);
      break;
    case KernelKind::attention_merge:
      a("context", context), a("lse", tokens * k_.heads), r("part", context), r("part lse", tokens * k_.heads);
      break;
    case KernelKind::unpack_gradients: r("dq", query), r("dkv", own), w("dqkv", qkv); break;
    case KernelKind::split_keys_values: {
      const double keys = tokens * k_.kv_heads * k_.head_dim;
      r("qkv", qkv), w("keys", keys), w("values", own - keys);
      break;
    }
    case KernelKind::attention_scores_forward:
      r("qkv", qkv), r("keys", brought_keys), w("scores", brought_scores);
      if (dropout) w("mask", brought_scores);
      break;
    case KernelKind::attention_softmax_forward:
      r("scores", brought_scores), w("probabilities", brought_scores);
      if (dropout) r("mask", brought_scores), w("weights", brought_scores);
      break;
    case KernelKind::attention_values_forward:
      r("weights", brought_scores), r("values", brought - brought_keys), w("context", context);
      break;
    case KernelKind::attention_values_backward:
      r("dcontext", context), r("values", brought - brought_keys), w("dweights", brought_scores);
      break;
    case KernelKind::attention_softmax_backward:
      r("probabilities", brought_scores);
      if (dropout) r("mask", brought_scores);
      a("dscores", brought_scores);
      break;
    case KernelKind::attention_scores_backward:
      r("dscores", brought_scores), r("keys", brought_keys), w("dq", query);
      break;
    case KernelKind::attention_pairs_backward:
      r("dcontext", context), r("qkv", qkv), r("weights", brought_scores), r("dscores", brought_scores);
      w("dkv", brought);
      break;
    default: break;
  }
}

}  // namespace orrery::verifying
