#pragma once

namespace orrery {

/// Draws every timeline of a page on its canvas, and opens what is folded for the printer. The data stand in a script
/// element of type application/json beside the canvas: {step, rows: [[name, [start, length, kind, microbatch, ...]]],
/// kinds: [[name, colour]]}, with times in thousandths of a thousandth of the step. Wheel, pinch and buttons zoom,
/// dragging moves, a tap or the pointer names what is below it.
inline constexpr const char* timeline_script = R"js('use strict';
for (const box of document.querySelectorAll('.timeline')) {
  const data = JSON.parse(box.querySelector('script').textContent);
  const canvas = box.querySelector('canvas'), said = box.querySelector('output'), context = canvas.getContext('2d');
  const all = 1e6, row = 18, left = 92, top = 20;
  let from = 0, to = all, ready = true;
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const time = t => {
    const s = t / all * data.step, units = [['s', 1], ['ms', 1e-3], ['us', 1e-6], ['ns', 1e-9]];
    const [unit, scale] = units.find(u => Math.abs(s) >= u[1]) || units[3];
    return (s / scale).toPrecision(3) + ' ' + unit;
  };
  const draw = () => {
    ready = true;
    const ratio = window.devicePixelRatio || 1, width = box.clientWidth, height = top + row * data.rows.length + 4;
    canvas.style.height = height + 'px';
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = colour('--back');
    context.fillRect(0, 0, width, height);
    context.font = '11px system-ui, sans-serif';
    context.textBaseline = 'middle';
    const scale = (width - left) / (to - from), colours = data.kinds.map(k => colour(k[1]));
    context.fillStyle = colour('--soft');
    for (let i = 0; i <= 4; ++i) {
      const x = left + (width - left) * i / 4;
      context.textAlign = i === 0 ? 'left' : i === 4 ? 'right' : 'center';
      context.fillText(time(from + (to - from) * i / 4), x, 10);
    }
    context.textAlign = 'left';
    data.rows.forEach(([name, bars], r) => {
      const y = top + r * row;
      context.fillStyle = colour('--soft');
      context.fillText(name, 2, y + row / 2, left - 6);
      for (let i = 0; i < bars.length; i += 4) {
        const start = bars[i], end = start + bars[i + 1];
        if (end < from || start > to) continue;
        const x = Math.max(left, left + (start - from) * scale), w = Math.min(width, left + (end - from) * scale) - x;
        context.fillStyle = colours[bars[i + 2]];
        context.fillRect(x, y + 2, Math.max(w, 0.6), row - 4);
        if (w > 16 && bars[i + 3] >= 0) {
          context.fillStyle = colour('--back');
          context.fillText(bars[i + 3], x + 3, y + row / 2, w - 4);
        }
      }
    });
  };
  const later = () => { if (ready) { ready = false; requestAnimationFrame(draw); } };
  const show = (a, b) => {
    const length = Math.min(all, Math.max(all * 1e-5, b - a));
    from = Math.min(Math.max(0, a), all - length);
    to = from + length;
    later();
  };
  const zoom = (factor, at) => show(at - (at - from) * factor, at + (to - at) * factor);
  const place = x => from + (to - from) * Math.max(0, x - left) / (canvas.clientWidth - left);
  const tell = (x, y) => {
    const found = data.rows[Math.floor((y - top) / row)], t = place(x);
    said.textContent = '';
    if (!found || x < left) return;
    const [name, bars] = found;
    for (let i = 0; i < bars.length; i += 4) {
      if (t < bars[i] || t > bars[i] + bars[i + 1]) continue;
      const batch = bars[i + 3] >= 0 ? ', microbatch ' + bars[i + 3] : '';
      said.textContent = name + ': ' + data.kinds[bars[i + 2]][0] + batch + ', from ' + time(bars[i]) + ' for ' + time(bars[i + 1]);
    }
  };
  const fingers = new Map();
  canvas.addEventListener('wheel', e => {
    if (!e.ctrlKey && !e.shiftKey && Math.abs(e.deltaX) <= Math.abs(e.deltaY) && to - from >= all && e.deltaY > 0) return;
    e.preventDefault();
    const width = to - from;
    if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) show(from + e.deltaX / 800 * width, to + e.deltaX / 800 * width);
    else zoom(e.deltaY < 0 ? 0.8 : 1.25, place(e.offsetX));
  }, {passive: false});
  canvas.addEventListener('pointerdown', e => { fingers.set(e.pointerId, e.offsetX); canvas.setPointerCapture(e.pointerId); });
  canvas.addEventListener('pointermove', e => {
    if (!fingers.has(e.pointerId)) return tell(e.offsetX, e.offsetY);
    const before = fingers.get(e.pointerId), width = to - from;
    if (fingers.size === 1) {
      const by = (before - e.offsetX) / (canvas.clientWidth - left) * width;
      show(from + by, to + by);
    } else {
      const other = [...fingers].find(f => f[0] !== e.pointerId)[1];
      const factor = Math.abs(before - other) / Math.max(1, Math.abs(e.offsetX - other));
      zoom(factor, place((e.offsetX + other) / 2));
    }
    fingers.set(e.pointerId, e.offsetX);
    tell(e.offsetX, e.offsetY);
  });
  for (const end of ['pointerup', 'pointercancel']) canvas.addEventListener(end, e => fingers.delete(e.pointerId));
  const middle = () => (from + to) / 2, [closer, wider, whole] = box.querySelectorAll('button');
  closer.addEventListener('click', () => zoom(0.5, middle()));
  wider.addEventListener('click', () => zoom(2, middle()));
  whole.addEventListener('click', () => show(0, all));
  canvas.addEventListener('keydown', e => {
    const step = (to - from) / 8;
    if (e.key === '+' || e.key === '=') zoom(0.5, middle());
    else if (e.key === '-') zoom(2, middle());
    else if (e.key === 'ArrowLeft') show(from - step, to - step);
    else if (e.key === 'ArrowRight') show(from + step, to + step);
    else if (e.key === '0') show(0, all);
    else return;
    e.preventDefault();
  });
  window.addEventListener('resize', later);
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', later);
  draw();
}
window.addEventListener('beforeprint', () => {
  for (const d of document.querySelectorAll('details:not([open])')) { d.open = true; d.dataset.printed = '1'; }
});
window.addEventListener('afterprint', () => {
  for (const d of document.querySelectorAll('details[data-printed]')) { d.open = false; delete d.dataset.printed; }
});
)js";

}  // namespace orrery
