(() => {
  const { picture, size: [height, width], epochs, boxes } = JSON.parse(document.getElementById("data").textContent).windows;
  const sample = document.getElementById("sample"), epoch = document.getElementById("window-epoch");
  const samples = boxes[0].length;

  function part(view, at) {
    const svg = draw("svg", { viewBox: view.join(" "), role: "img" });
    // The image holds all samples side by side; the view shows one of them, or a part of it.
    const clip = draw("svg", { x: 0, y: 0, width, height, viewBox: `${at * width} 0 ${width} ${height}` });
    clip.append(draw("image", { href: picture, width: width * samples, height, style: "image-rendering: pixelated" }));
    svg.append(draw("rect", { width, height, class: "noise" }), clip);
    return svg;
  }

  function show() {
    const at = Number(sample.value), when = Number(epoch.value);
    const whole = part([0, 0, width, height], at);
    const seen = boxes[when][at].map(([top, left, tall, wide]) => {
      // Coordinates run from 0 at the centre of the first pixel to 1 at the centre of the last.
      const box = { x: left * (width - 1), y: top * (height - 1), width: wide * (width - 1) + 1, height: tall * (height - 1) + 1 };
      whole.append(draw("rect", { ...box, class: "window" }));
      return part([box.x, box.y, box.width, box.height], at);
    });
    whole.setAttribute("aria-label", `Sample ${at + 1} with its window after ${epochs[when]} epochs`);
    for (const svg of seen) svg.setAttribute("aria-label", "What is in the window");
    document.getElementById("window").replaceChildren(whole, ...seen);
    document.getElementById("sampled").textContent = `${at + 1} of ${samples}`;
    document.getElementById("window-at").textContent = `${epochs[when]} of ${epochs.at(-1)}`;
  }

  sample.max = samples - 1;
  epoch.max = epochs.length - 1;
  epoch.value = epoch.max;
  sample.addEventListener("input", show);
  player(document.getElementById("window-play"), epoch, show, 160);
  show();
})();
