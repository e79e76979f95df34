"""The one style sheet, for light and dark screens, wide and narrow ones, and paper."""

STYLE = """
:root { color-scheme: light dark; --paper: #fdfdfb; --card: #f3f2ee; --ink: #1d1d1b; --soft: #62625c; --line: #d9d8d2;
  --accent: #0072b2; --other: #c2500a; --good: #00795a; --shade: 0 114 178; --shade-other: 213 94 0; }
@media (prefers-color-scheme: dark) { :root { --paper: #16171a; --card: #212327; --ink: #ececea; --soft: #a5a6a2;
  --line: #3b3d42; --accent: #58b2ec; --other: #ff9750; --good: #3dc99b; --shade: 88 178 236; --shade-other: 255 151 80; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem 1rem 3rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; overflow-wrap: break-word; }
header p { color: var(--soft); margin: .2rem 0 0; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; }
.n, td:not(.name), .tile b { white-space: nowrap; } .words td:last-child { white-space: normal; }
td.name small { display: block; color: var(--soft); font-size: .8rem; line-height: 1.25; white-space: normal; }
p { max-width: 44rem; } .soft { color: var(--soft); font-size: .92rem; }
.tiles { display: grid; gap: .7rem; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); margin: 1.3rem 0; }
.tile { background: var(--card); border-radius: .5rem; padding: .7rem .9rem; }
.tile b { display: block; font-size: 1.45rem; line-height: 1.25; font-variant-numeric: tabular-nums; }
.tile > span { color: var(--soft); font-size: .85rem; display: block; line-height: 1.35; }
.pictures { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr)); }
figure { margin: 0; min-width: 0; } figure svg { width: 100%; height: auto; max-width: 34rem; display: block; }
figcaption { color: var(--soft); font-size: .88rem; margin-top: .2rem; max-width: 34rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .4rem 0; }
th, td { padding: .28rem .7rem .28rem 0; text-align: right; border-bottom: 1px solid var(--line); vertical-align: baseline; }
th { color: var(--soft); font-weight: 500; font-size: .88rem; } th:first-child, td:first-child, .words td { text-align: left; }
.words td:first-child { color: var(--soft); white-space: nowrap; } .words td { overflow-wrap: anywhere; }
.bars td { border: 0; padding-top: .12rem; padding-bottom: .12rem; } .bars { width: 100%; max-width: 44rem; }
.bars td.name { max-width: 16rem; overflow-wrap: anywhere; } .bars td.bar { width: 55%; padding: 0; }
.bars i { display: block; height: .8rem; border-radius: 2px; background: var(--accent); }
.bars i.less { background: var(--other); margin-left: auto; } .two { display: grid; grid-template-columns: 1fr 1fr; }
.two > div { min-width: 0; } .two > div:first-child { border-right: 1px solid var(--soft); }
.confusion td, .confusion th { padding: .35rem .6rem; text-align: center; }
.confusion td { background: rgb(var(--shade) / calc(var(--share) * 70%)); min-width: 3rem; }
.heat td { padding: .2rem .5rem; } .heat td.name { min-width: 8rem; max-width: 16rem; } .heat td.more { background: rgb(var(--shade) / calc(var(--share) * 60%)); }
.heat td.less { background: rgb(var(--shade-other) / calc(var(--share) * 60%)); }
.confusion th { white-space: nowrap; } .confusion th[scope=row] { text-align: right; } .proof { border-left: .3rem solid var(--good); padding: .1rem 0 .1rem .9rem; }
.proof.open { border-color: var(--other); } code { font: .92em ui-monospace, monospace; overflow-wrap: anywhere; }
footer { margin-top: 2.5rem; border-top: 1px solid var(--line); color: var(--soft); font-size: .88rem; }
.heat td.name { overflow-wrap: anywhere; }
@media (max-width: 34rem) { .heat td.name { min-width: 5.5rem; max-width: 7rem; } .bars td.bar { width: 34%; } .bars td.name { min-width: 8rem; }
  .confusion td { min-width: 2.2rem; } .confusion td, .confusion th { padding: .3rem .35rem; } .heat td { padding: .2rem .35rem; } }
@media print { :root { --paper: #fff; --card: #f3f2ee; --ink: #000; --soft: #444; --line: #bbb; --accent: #0072b2;
  --other: #c2500a; --good: #00795a; --shade: 0 114 178; --shade-other: 213 94 0; } body { max-width: none; padding: 0; font-size: 10.5pt; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } figure, .tile, tr { break-inside: avoid; } h2 { break-after: avoid; } }
"""
