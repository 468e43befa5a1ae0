"use strict";
const SVG = "http://www.w3.org/2000/svg";

function draw(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function make(tag, className = "", text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.textContent = text;
  return made;
}

function digits(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  const text = size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(1) : String(+value.toPrecision(4));
  return text.replace("-", "−");
}

// Round numbers that divide a range into about `count` steps.
function ticks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
  const first = Math.ceil(low / step - 1e-9);
  const ticks = [];
  for (let at = first; at * step <= high + step * 1e-9; at += 1) ticks.push(+(at * step).toPrecision(12));
  return ticks;
}

// Text shrinks with an SVG, so a phone gets a narrower one.
const SMALL = innerWidth < 600;
const FRAME = { width: SMALL ? 340 : 480, height: 240, left: 46, right: 10, top: 10, bottom: 30 };

function scale(low, high, from, to) {
  return (value) => +(from + ((value - low) / (high - low || 1)) * (to - from)).toFixed(1);
}

// An empty chart with axes; x and y map values to places.
function axes(range, labels, frame = FRAME) {
  const x = scale(range.x[0], range.x[1], frame.left, frame.width - frame.right);
  const y = scale(range.y[0], range.y[1], frame.height - frame.bottom, frame.top);
  const svg = draw("svg", { viewBox: `0 0 ${frame.width} ${frame.height}`, role: "img" });
  const low = Math.min(...range.y), high = Math.max(...range.y);
  for (const at of ticks(low, high, 6)) {
    svg.append(
      draw("line", { class: "grid", x1: frame.left, x2: frame.width - frame.right, y1: y(at), y2: y(at) }),
      draw("text", { x: frame.left - 6, y: y(at) + 4, "text-anchor": "end" }, digits(at)),
    );
  }
  const floor = frame.height - frame.bottom;
  svg.append(draw("line", { class: "axis", x1: frame.left, x2: frame.width - frame.right, y1: floor, y2: floor }));
  for (const at of ticks(range.x[0], range.x[1], 5)) {
    svg.append(draw("text", { x: x(at), y: floor + 15, "text-anchor": "middle" }, digits(at)));
  }
  svg.append(draw("text", { x: frame.width - frame.right, y: floor + 28, "text-anchor": "end" }, labels.x));
  return { svg, x, y, frame };
}

function path(points) {
  let pen = "M";
  let text = "";
  for (const [x, y] of points) {
    if (x === null || y === null) { pen = "M"; continue; }
    text += `${pen}${x} ${y}`;
    pen = "L";
  }
  return text;
}

function spread(values) {
  const known = values.filter((value) => value !== null);
  const low = Math.min(...known), high = Math.max(...known);
  const room = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1;
  return [low - room, high + room];
}

// Lines over a common x, with a cursor that shows values (mouse, touch or arrow keys).
function lineChart({ title, label, xs, lines, marks = {} }) {
  const figure = make("figure", "chart");
  const caption = make("figcaption");
  caption.append(make("strong", "", title));
  const range = { x: [xs[0], xs.at(-1) === xs[0] ? xs[0] + 1 : xs.at(-1)], y: spread(Object.values(lines).flat()) };
  const { svg, x, y, frame } = axes(range, { x: label });
  const floor = frame.height - frame.bottom;
  for (const at of new Set(Object.values(marks))) {
    const names = Object.keys(marks).filter((name) => marks[name] === at).join(", ");
    svg.append(draw("line", { class: "mark", x1: x(at), x2: x(at), y1: frame.top, y2: floor }, draw("title", {}, names)));
  }
  const outputs = {};
  Object.entries(lines).forEach(([name, values], place) => {
    const kind = `line s${Math.min(place, 3)}`;
    const points = values.map((value, at) => [x(xs[at]), value === null ? null : y(value)]);
    svg.append(draw("path", { class: kind, d: path(points) }));
    if (xs.length === 1 && values[0] !== null) svg.append(draw("circle", { class: "dot", cx: points[0][0], cy: points[0][1], r: 3 }));
    const key = make("span", "key");
    key.append(draw("svg", { viewBox: "0 0 26 8", "aria-hidden": "true" }, draw("path", { class: kind, d: "M0 4H26" })), name);
    outputs[name] = make("output");
    key.append(outputs[name]);
    caption.append(key);
  });
  const cursor = draw("line", { class: "cursor", y1: frame.top, y2: floor, visibility: "hidden" });
  svg.append(cursor);
  const where = make("span", "key");
  caption.append(where);
  let at = xs.length - 1;
  function point(place, visible = true) {
    at = Math.max(0, Math.min(xs.length - 1, place));
    cursor.setAttribute("x1", x(xs[at]));
    cursor.setAttribute("x2", x(xs[at]));
    cursor.setAttribute("visibility", visible ? "visible" : "hidden");
    for (const name of Object.keys(lines)) outputs[name].textContent = digits(lines[name][at]);
    where.textContent = `${label} ${digits(xs[at])}`;
  }
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const wanted = ((event.clientX - box.left) / box.width) * frame.width;
    const gaps = xs.map((value) => Math.abs(x(value) - wanted));
    point(gaps.indexOf(Math.min(...gaps)));
  });
  svg.addEventListener("pointerleave", () => point(xs.length - 1, false));
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    point(at + step);
  });
  svg.setAttribute("tabindex", "0");
  const last = Object.entries(lines).map(([name, values]) => `${name} ${digits(values.at(-1))}`).join(", ");
  svg.setAttribute("aria-label", `${title} by ${label}; at the end ${last}. Arrow keys tell other values.`);
  point(xs.length - 1, false);
  figure.append(caption, svg);
  return figure;
}

// Make a button play a slider to its end; moving the slider stops it. Returns the function that stops it.
function player(button, slider, show, pause) {
  let timer = null;
  function stop() {
    clearInterval(timer);
    timer = null;
    button.textContent = "Play";
    button.setAttribute("aria-pressed", "false");
  }
  slider.addEventListener("input", () => { stop(); show(); });
  button.addEventListener("click", () => {
    if (timer) { stop(); return; }
    if (slider.value === slider.max) slider.value = 0;
    show();
    button.textContent = "Stop";
    button.setAttribute("aria-pressed", "true");
    timer = setInterval(() => {
      slider.value = Number(slider.value) + 1;
      show();
      if (slider.value === slider.max) stop();
    }, pause);
  });
  return stop;
}
