(() => {
  const content = JSON.parse(document.getElementById("data").textContent);
  const TITLES = { acc: "accuracy, %", loss: "loss", mae: "mean absolute error", mse: "mean squared error", sigma_mean: "mean σ" };
  const PARTS = ["test", "train", "val"]; // the first gets the accent colour
  const FEW = 10, POINTS = 241;
  const shade = (neuron) => `c${neuron % 7}`; // a neuron keeps its colour

  function curves() {
    const { epochs, panels } = content.curves;
    const order = [content.score, "loss"];
    const rank = (panel) => (order.includes(panel.title) ? order.indexOf(panel.title) : order.length);
    for (const panel of [...panels].sort((one, other) => rank(one) - rank(other))) {
      const factor = panel.title === "acc" ? 100 : 1;
      const names = Object.keys(panel.lines);
      const known = [...PARTS.filter((part) => names.includes(part)), ...names.filter((name) => !PARTS.includes(name))];
      const lines = Object.fromEntries(known.map((name) => [
        name, panel.lines[name].map((value) => (value === null ? null : factor * value)),
      ]));
      const marks = panel.title === content.score ? content.marks : {};
      document.getElementById("charts").append(
        lineChart({ title: TITLES[panel.title] ?? panel.title, label: "epoch", xs: epochs, lines, marks }),
      );
    }
  }

  // One chart for both rules if they were measured at the same sparsities.
  function pruning() {
    const charts = new Map();
    for (const [rule, points] of Object.entries(content.pruning)) {
      const sorted = [...points].sort((one, other) => one[0] - other[0]);
      const xs = sorted.map(([sparsity]) => 100 * sparsity);
      const chart = charts.get(xs.join()) ?? { xs, lines: {} };
      chart.lines[rule] = sorted.map(([, acc]) => (acc === null ? null : 100 * acc));
      charts.set(xs.join(), chart);
    }
    for (const { xs, lines } of charts.values()) {
      document.getElementById("pruned").append(
        lineChart({ title: "accuracy, %, with connections dropped", label: "sparsity, %", xs, lines }),
      );
    }
  }

  // Unpack 16-bit integers in base64 to values: [epoch][neuron][axis].
  function unpack({ low, high, shape, data }) {
    const bytes = Uint8Array.from(atob(data), (char) => char.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    const [epochs, neurons, axesCount] = shape;
    let at = -2;
    const next = () => low + (view.getUint16((at += 2), true) / 65535) * (high - low);
    return Array.from({ length: epochs }, () =>
      Array.from({ length: neurons }, () => Array.from({ length: axesCount }, next)));
  }

  const FUNCTIONS = {
    gaussian: (u) => Math.exp((-u * u) / 2),
    bernoulli: (u) => Math.exp((-u * u) / 2),
    negated_gaussian: (u) => 1 - Math.exp((-u * u) / 2),
    gaussian_derivative: (u) => u * Math.exp((-u * u) / 2),
    triangle: (u) => Math.max(0, 1 - Math.abs(u) / Math.sqrt(6)),
  };

  // Smooth curve of a neuron's phi, normalised over the inputs.
  function phi(layer, mu, sigma) {
    const { positions, normalizer, inputs } = layer;
    const focus = (tau) => (FUNCTIONS[layer.focus] ?? FUNCTIONS.gaussian)((tau - mu) / sigma);
    const g = positions.map(focus);
    const mean = (power) => g.reduce((sum, value) => sum + Math.abs(value) ** power, 0) / g.length;
    const norm = { l2: Math.sqrt(mean(2)), sum: Math.sqrt(inputs) * mean(1), mean: mean(1), none: 1 }[normalizer] || 1;
    // Clip a focus much narrower than the distance of inputs: no input sees its spike.
    const limit = 2 * Math.max(...g.map(Math.abs));
    return fine(layer).map((tau) => Math.max(-limit, Math.min(limit, focus(tau))) / norm);
  }

  function fine({ positions }) {
    const [first, last] = [positions[0], positions.at(-1)];
    return Array.from({ length: POINTS }, (_, at) => first + ((last - first) * at) / (POINTS - 1));
  }

  function shadeNoise(chart, layer) {
    if (!layer.informative || layer.inputs < 2) return;
    const { svg, x, frame } = chart;
    const step = layer.positions.at(-1) / (layer.inputs - 1);
    const edge = (column) => Math.max(0, Math.min(1, (column - 0.5) * step));
    const [start, stop] = layer.informative.map(edge);
    for (const [from, to] of [[0, start], [stop, 1]]) {
      if (to - from < 1e-6) continue;
      svg.prepend(draw("rect", { class: "noise", x: x(from), width: x(to) - x(from), y: frame.top, height: frame.height - frame.bottom - frame.top }));
      svg.append(draw("text", { x: (x(from) + x(to)) / 2, y: frame.top + 12, "text-anchor": "middle" }, "noise"));
    }
  }

  const WIDE = SMALL ? FRAME : { ...FRAME, width: 760, height: 320 };

  function asCurves(layer, at) {
    if (!layer.phi) {
      layer.phi = layer.mu.map((neurons, epoch) => neurons.map(([mu], j) => phi(layer, mu, layer.sigma[epoch][j][0])));
      layer.range = spread([0, ...layer.phi.flat(2)]);
    }
    const chart = axes({ x: [0, 1], y: layer.range }, { x: "input position τ" }, WIDE);
    shadeNoise(chart, layer);
    const places = fine(layer).map(chart.x);
    const points = (values) => values.map((value, i) => [places[i], chart.y(value)]);
    const floor = chart.frame.height - chart.frame.bottom;
    if (layer.positions.length <= 100) {
      for (const tau of layer.positions) chart.svg.append(draw("line", { class: "axis", x1: chart.x(tau), x2: chart.x(tau), y1: floor, y2: floor + 3 }));
    }
    const line = (values) => path(points(values));
    // End at zero on both sides: a focus at the edge would be filled across the whole picture.
    const area = (values) => {
      const over = points(values);
      return path([[over[0][0], chart.y(0)], ...over, [over[over.length - 1][0], chart.y(0)]]);
    };
    for (const values of layer.phi[0]) chart.svg.append(draw("path", { class: "ghost", d: line(values) }));
    layer.phi[at].forEach((values, j) => {
      chart.svg.append(draw("path", { class: `area ${shade(j)}`, d: area(values) }));
      chart.svg.append(draw("path", { class: `focus ${shade(j)}`, d: line(values) }));
    });
    return chart.svg;
  }

  function asBars(layer, at) {
    const count = layer.neurons.length;
    const chart = axes({ x: [0, 1], y: [count, -1] }, { x: "input position τ" }, { ...WIDE, height: 60 + 9 * count, left: 10 });
    for (const element of chart.svg.querySelectorAll(".grid, text[text-anchor=end]")) if (element.textContent !== "input position τ") element.remove();
    shadeNoise(chart, layer);
    const bar = (epoch, kind) => layer.mu[epoch].forEach(([mu], j) => {
      const [sigma] = layer.sigma[epoch][j], y = chart.y(j);
      const ends = [mu - sigma, mu + sigma].map((end) => chart.x(Math.max(0, Math.min(1, end))));
      chart.svg.append(draw("line", { class: `${kind} ${shade(j)}`, x1: ends[0], x2: ends[1], y1: y, y2: y }));
      if (kind === "focus") chart.svg.append(draw("circle", { class: `dot ${shade(j)}`, cx: chart.x(mu), cy: y, r: 2.5 }));
    });
    bar(0, "ghost");
    bar(at, "focus");
    return chart.svg;
  }

  function inPlane(layer, at) {
    const side = SMALL ? 340 : 480;
    const frame = { width: side, height: side, left: 30, right: 14, top: 14, bottom: 30 };
    const chart = axes({ x: [0, 1], y: [1, 0] }, { x: "column" }, frame);
    const shapes = (epoch, kind) => layer.mu[epoch].forEach(([row, column], j) => {
      const [tall, wide] = layer.sigma[epoch][j];
      const rx = chart.x(wide) - chart.x(0), ry = chart.y(tall) - chart.y(0);
      chart.svg.append(draw("ellipse", { class: `${kind} ${shade(j)}`, cx: chart.x(column), cy: chart.y(row), rx, ry }));
      if (kind !== "ghost") chart.svg.append(draw("circle", { class: `dot ${shade(j)}`, cx: chart.x(column), cy: chart.y(row), r: 2 }));
    });
    shapes(0, "ghost");
    shapes(at, "focus");
    chart.svg.style.maxWidth = "30rem";
    return chart.svg;
  }

  function foci() {
    const layers = content.foci.map((layer) => ({ ...layer, mu: unpack(layer.mu), sigma: unpack(layer.sigma) }));
    const slider = document.getElementById("epoch"), output = document.getElementById("at");
    const select = document.getElementById("layer"), play = document.getElementById("play");

    function show() {
      const layer = layers[Number(select?.value ?? 0)];
      const at = Math.min(Number(slider.value), layer.epochs.length - 1);
      const drawing = layer.axes > 1 ? inPlane : layer.neurons.length <= FEW ? asCurves : asBars;
      const svg = drawing(layer, at);
      svg.setAttribute("aria-label", `Foci of ${layer.name} after ${layer.epochs[at]} epochs`);
      document.getElementById("focus").replaceChildren(svg);
      output.textContent = `${layer.epochs[at]} of ${layer.of_epochs}`;
      slider.setAttribute("aria-valuetext", output.textContent);
      document.getElementById("about").textContent = about(layer, drawing);
    }

    function about(layer, drawing) {
      const shown = { [asCurves.name]: "Focus φ of each neuron", [asBars.name]: "Dot: centre μ, bar: μ ± σ; neurons in the order of their first μ", [inPlane.name]: `Dot: centre μ, ellipse: σ${layer.axes > 2 ? `, on the first two of ${layer.axes} axes` : ""}` }[drawing.name];
      const few = layer.neurons.length < layer.of_neurons ? `${layer.neurons.length} of ${layer.of_neurons} neurons, evenly spaced` : `all ${layer.of_neurons} neurons`;
      const thin = layer.epochs.length < layer.of_epochs + 1 ? `; ${layer.epochs.length} of ${layer.of_epochs + 1} epochs, evenly spaced` : "";
      return `${shown}; ${few}${thin}. Grey: the start.`;
    }

    function restart() {
      stop();
      slider.max = layers[Number(select?.value ?? 0)].epochs.length - 1;
      slider.value = slider.max;
      show();
    }

    const stop = player(play, slider, show, 120);
    select?.addEventListener("change", restart);
    restart();
  }

  if (content.curves) curves();
  if (content.foci.length) foci();
  if (content.pruning) pruning();
})();
