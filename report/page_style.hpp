#pragma once

namespace orrery {

/// The style of every page. Colours are variables: the script and the drawings take them from here. The colours of
/// parts are those of Okabe and Ito, told apart by colour-blind readers; lightness differs too.
inline constexpr const char* page_style = R"css(:root {
  color-scheme: light dark;
  --back: #ffffff; --text: #1b1f24; --soft: #57606a; --line: #d0d7de; --panel: #f6f8fa; --link: #0550ae;
  --c1: #0072b2; --c2: #e69f00; --c3: #009e73; --c4: #cc79a7; --c5: #56b4e9; --c6: #d55e00; --c7: #6e7781;
  --good: #1a7f37; --bad: #b42318;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #0d1117; --text: #e6edf3; --soft: #9da7b3; --line: #30363d; --panel: #161b22; --link: #79c0ff;
    --c1: #3d9bd8; --c2: #e6b450; --c3: #2fbf8f; --c4: #d99bbd; --c5: #7cc7f2; --c6: #f0883e; --c7: #8b949e;
    --good: #3fb950; --bad: #ff7b72;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
header, main { max-width: 1100px; margin: 0 auto; padding: 0 16px; }
h1 { font-size: 1.5rem; margin: 20px 0 8px; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 36px 0 10px; padding-bottom: 4px; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 20px 0 6px; }
nav { display: flex; flex-wrap: wrap; gap: 4px 14px; }
a { color: var(--link); }
p { margin: 8px 0; max-width: 75ch; overflow-wrap: anywhere; }
.soft { color: var(--soft); }
.good { color: var(--good); font-weight: 600; }
.bad { color: var(--bad); font-weight: 600; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 10px; margin: 12px 0; }
.card { border: 1px solid var(--line); border-radius: 6px; padding: 8px 12px; background: var(--panel); }
.card b { display: block; font-size: 1.25rem; }
.card span { color: var(--soft); font-size: 0.85rem; }
details { border: 1px solid var(--line); border-radius: 6px; padding: 6px 12px; margin: 6px 0; background: var(--panel); }
details details { margin-left: 0; background: var(--back); }
summary { cursor: pointer; overflow-wrap: anywhere; }
.wide { overflow-x: auto; margin: 8px 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 3px 10px; border-bottom: 1px solid var(--line); vertical-align: top; }
td:not(.l) { white-space: nowrap; }
th { color: var(--soft); font-weight: 600; }
.l { text-align: left; }
pre { overflow-x: auto; padding: 10px; margin: 8px 0; background: var(--panel); border: 1px solid var(--line);
  border-radius: 6px; font: 13px/1.4 ui-monospace, monospace; }
svg { max-width: 100%; height: auto; display: block; margin: 8px 0; }
svg text { fill: var(--text); font: 12px system-ui, sans-serif; }
.bar { display: flex; height: 18px; background: var(--line); border-radius: 3px; overflow: hidden; }
.bar i { display: block; height: 100%; }
.over { outline: 2px solid var(--bad); }
.row { display: grid; grid-template-columns: 70px 1fr 180px; gap: 10px; align-items: center; margin: 4px 0; }
.row span:last-child { text-align: right; font-variant-numeric: tabular-nums; }
.key { display: flex; flex-wrap: wrap; gap: 4px 14px; margin: 8px 0; font-size: 0.85rem; }
.key i { display: inline-block; width: 12px; height: 12px; border-radius: 2px; margin-right: 5px; vertical-align: -1px; }
.k1 { background: var(--c1); } .k2 { background: var(--c2); } .k3 { background: var(--c3); } .k4 { background: var(--c4); }
.k5 { background: var(--c5); } .k6 { background: var(--c6); } .k7 { background: var(--c7); }
.f1 { fill: var(--c1); } .f2 { fill: var(--c2); } .f3 { fill: var(--c3); } .f4 { fill: var(--c4); } .f5 { fill: var(--c5); }
.f6 { fill: var(--c6); } .f7 { fill: var(--c7); }
.chart { stroke: var(--text); fill: none; }
.timeline canvas { width: 100%; display: block; border: 1px solid var(--line); border-radius: 6px; touch-action: pan-y; }
.timeline button { font: inherit; color: var(--text); background: var(--panel); border: 1px solid var(--line);
  border-radius: 6px; padding: 3px 12px; margin-right: 6px; }
.timeline output { display: block; min-height: 1.6em; color: var(--soft); font-size: 0.9rem; }
.paper { background: #fff; padding: 4px; border-radius: 6px; } .paper svg text { fill: #1b1f24; }
ul { padding-left: 20px; }
@media (max-width: 600px) { .row { grid-template-columns: 60px 1fr; } .row span:last-child { grid-column: 2; text-align: left; } }
@media print {
  nav, .timeline button { display: none; }
  body { font-size: 11px; }
  details { break-inside: avoid; }
  section { break-inside: auto; }
}
)css";

}  // namespace orrery
