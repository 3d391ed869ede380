#include "core/program/operand_name.hpp"

#include <algorithm>
#include <array>

namespace orrery {
namespace {

/// In the order of the enumerators.
constexpr std::string_view in_one_line =
    "tokens,targets,segments,patches,count,parameters,loss_scale,x,dx,y,dy,table,dtable,token,dtoken,bias,"
    "dbias,gamma,dgamma,beta,dbeta,stats,sums,squares,gradient sums,query gamma,dquery gamma,"
    "key gamma,dkey gamma,residual,mask,A,B,C,qkv,dqkv,context,"
    "dcontext,probabilities,dropped,lse,sinks,dsinks,dq,dq accumulator,queries,dqueries,pairs,dpairs,key,dkey,kv,"
    "dkv,part,part lse,keys,values,scores,dscores,weights,dweights,sum,pre,dpre,d,choice,slots,experts,loads,logits,"
    "dlogits,gates,dgates,rows,drows,max,target_logit,loss,losses,gradient,norm,norms,factor,steps,weight,"
    "master,exact,m,v,scales,moments,codes";

constexpr std::array<std::string_view, operand_name_count> words = [] {
  std::array<std::string_view, operand_name_count> list;
  std::string_view rest = in_one_line;
  for (std::string_view& word : list) {
    word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
  }
  return list;
}();
static_assert(words.back() == "codes");

}  // namespace

std::string_view name_of(OperandName name) { return words[static_cast<std::size_t>(name)]; }

}  // namespace orrery
