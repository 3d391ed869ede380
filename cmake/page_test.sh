#!/bin/sh
# Opens reports in a headless Chromium, clicks through them, and asks the page what came of it: every folded part opens,
# the timeline is drawn and answers its buttons, keys, wheel and pointer, no script fails, and nothing was fetched.
# Exits with 77 (skipped) where there is no Chromium.
#
#   page_test.sh ORRERY
set -eu
orrery=$1
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$browser" ]; then
  echo "skipped: there is no Chromium"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
XDG_DATA_HOME=$folder
export XDG_DATA_HOME
"$orrery" sweep --model llama-3-8b --cluster dgx-h100 --gpus 8,12,16 --batch 64,128 --seq 8k -o "$folder/points.jsonl" >"$folder/log"
"$orrery" report demo-2x2x2 -o "$folder/plan.html" >>"$folder/log"
"$orrery" report demo-2x2x2 "zero=1" "mbs=1" -o "$folder/plans.html" >>"$folder/log"
"$orrery" report "$folder/points.jsonl" --pareto tokens-per-s,cost -o "$folder/sweep.html" >>"$folder/log"
cat >"$folder/clicks" <<'CLICKS'
<script>
// A headless browser draws no frames of its own accord.
window.requestAnimationFrame = draw => setTimeout(draw, 0);
const mistakes = [];
window.addEventListener('error', e => mistakes.push('script: ' + e.message));
window.addEventListener('securitypolicyviolation', e => mistakes.push('fetched: ' + e.blockedURI));
window.addEventListener('load', () => setTimeout(() => {
  const must = (holds, what) => { if (!holds) mistakes.push(what); };
  const folded = [...document.querySelectorAll('details')];
  for (const d of folded) {
    const before = d.open;
    d.querySelector('summary').click();
    must(d.open !== before, 'a folded part stays as it was');
    if (!d.open) d.open = true;
  }
  for (const a of document.querySelectorAll('nav a')) {
    a.click();
    must(location.hash === a.getAttribute('href') && document.querySelector(location.hash), 'a link leads nowhere');
  }
  const canvas = document.querySelector('.timeline canvas');
  if (canvas) {
    const output = document.querySelector('.timeline output');
    const image = () => canvas.toDataURL();
    const steps = [];
    const at = (type, x, more) => new PointerEvent(type, {clientX: canvas.getBoundingClientRect().left + x,
      clientY: canvas.getBoundingClientRect().top + 29, pointerId: 1, bubbles: true, ...more});
    const first = image();
    must(first.length > 1000, 'the timeline is empty');
    canvas.setPointerCapture = () => {};
    let named = false;
    for (let x = 92; x < canvas.clientWidth; x += 3) {
      canvas.dispatchEvent(at('pointermove', x));
      named = named || /^stage 0: (forward|backward).*, microbatch 0, from /.test(output.textContent);
    }
    must(named, 'the pointer names nothing');
    const change = (what, act) => steps.push([what, act]);
    change('closer', () => document.querySelectorAll('.timeline button')[0].click());
    change('wheel', () => canvas.dispatchEvent(new WheelEvent('wheel', {deltaY: -100, cancelable: true})));
    change('right', () => canvas.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'})));
    change('drag', () => { canvas.dispatchEvent(at('pointerdown', 300)); canvas.dispatchEvent(at('pointermove', 200));
                           canvas.dispatchEvent(at('pointerup', 200)); });
    let before = first;
    const next = () => {
      const step = steps.shift();
      if (!step) {
        document.querySelectorAll('.timeline button')[2].click();
        setTimeout(() => { must(image() === first, 'the whole step is not what it was'); tell(); }, 100);
        return;
      }
      step[1]();
      setTimeout(() => { const now = image(); must(now !== before, step[0] + ' changes nothing'); before = now; next(); }, 100);
    };
    next();
  } else tell();
  function tell() {
    must(performance.getEntriesByType('resource').length === 0, 'something was fetched');
    must(document.documentElement.scrollWidth <= window.innerWidth, 'the page is wider than the window');
    document.title = mistakes.length ? 'WRONG: ' + mistakes.join('; ') : 'CLICKED ' + folded.length;
  }
}, 50));
</script>
CLICKS
for page in plan plans sweep; do
  sed -i "/^<meta charset/r $folder/clicks" "$folder/$page.html"
  for size in 1200,900 500,900; do
    "$browser" --headless --no-sandbox --disable-gpu --window-size=$size --user-data-dir="$folder/profile" \
      --virtual-time-budget=20000 --dump-dom "file://$folder/$page.html" >"$folder/dom" 2>"$folder/browser.log" || true
    said=$(sed -n 's/.*<title>\(CLICKED [0-9]*\|WRONG: [^<]*\).*/\1/p' "$folder/dom" | head -1)
    echo "$page at $size: ${said:-no answer}"
    case "$said" in CLICKED*) ;; *) exit 1 ;; esac
  done
done
