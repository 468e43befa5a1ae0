(() => {
  "use strict";
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const form = document.getElementById("filters");
  const search = document.getElementById("search");
  const { runs, names } = JSON.parse(document.getElementById("data").textContent);
  const STEP = 50;
  const KINDS = ["experiment", "size", "data", "model", "protocol"];
  const NAME = 0, EXPERIMENT = 1, DATA = 2, MODEL = 3, SETTING = 4, SIZE = 5, VARIANT = 6, SEED = 7, METRIC = 8;
  const PROTOCOL = { best_test: 9, holdout: 10, last: 11 };
  const SECONDS = 12, FINISHED = 13, STATUS = 14;
  const COLUMNS = [
    { title: "experiment", key: EXPERIMENT, show: (run) => run[EXPERIMENT], link: true },
    { title: "data", key: DATA, show: (run) => names.data[run[DATA]] ?? run[DATA] },
    { title: "model", key: MODEL, show: (run) => names.model[run[MODEL]] ?? run[MODEL] },
    { title: "setting", key: SETTING, show: (run) => run[SETTING] },
    { title: "size, variant", key: SIZE, show: (run) => `${run[SIZE]}, ${run[VARIANT]}` },
    { title: "seed", key: SEED, right: true, show: (run) => String(run[SEED]) },
    ...Object.entries(PROTOCOL).map(([protocol, key]) => ({
      title: protocol, key, right: true, protocol, show: (run) => score(run, run[key]),
    })),
    { title: "time", key: SECONDS, right: true, show: (run) => duration(run[SECONDS]) },
    { title: "finished", key: FINISHED, show: (run) => (run[STATUS] === "done" ? run[FINISHED] : run[STATUS]) },
  ];
  let order = { key: EXPERIMENT, down: false };
  let most = STEP;
  let wanted = {};

  function score(run, value) {
    if (value === null) return "–";
    return run[METRIC] === "accuracy" ? (100 * value).toFixed(2) : `${value.toFixed(2)} ${run[METRIC].toUpperCase()}`;
  }

  function duration(seconds) {
    if (seconds === null) return "–";
    if (seconds < 90) return `${seconds.toFixed(1)} s`;
    return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
  }

  function fits(element) {
    return KINDS.every((kind) => {
      const has = element.dataset[kind];
      return !wanted[kind].size || !has || has.split(" ").some((value) => wanted[kind].has(value));
    });
  }

  function filter() {
    for (const kind of KINDS) {
      wanted[kind] = new Set(all(`input[name=${kind}]:checked`, form).map((box) => box.value));
    }
    for (const element of all(".filtered")) {
      const second = element.dataset.shown === "0" && !wanted.protocol.size;
      element.hidden = second || !fits(element);
    }
    for (const cell of all("[data-column]")) {
      cell.hidden = wanted.protocol.size > 0 && !wanted.protocol.has(cell.dataset.column);
    }
    for (const body of all("tbody")) heads(body);
    for (const section of all("section.table")) {
      const rows = all("tr.filtered", section);
      section.hidden ||= rows.length > 0 && rows.every((row) => row.hidden);
    }
    for (const section of all("section.pictured")) section.hidden = all("figure", section).every((figure) => figure.hidden);
    count();
    for (const summary of all("summary", form)) {
      const boxes = all("input:checked", summary.parentElement);
      const title = summary.dataset.title;
      summary.textContent = boxes.length === 1 ? boxes[0].parentElement.textContent.trim()
        : boxes.length ? `${title}: ${boxes.length}` : title;
      summary.classList.toggle("on", boxes.length > 0);
    }
    form.querySelector("[type=reset]").hidden = !KINDS.some((kind) => wanted[kind].size);
    most = STEP;
    list();
  }

  // Count the comparisons that pass the filters.
  function count() {
    const verdict = document.getElementById("counted");
    if (!verdict) return;
    const rows = all("tr.counted").filter((row) => !row.hidden && !row.closest("[hidden]"));
    const of = (word) => rows.filter((row) => row.classList.contains(word)).length;
    verdict.hidden = rows.length === 0;
    verdict.querySelector("strong").textContent = `${of("better")} of ${rows.length}`;
    for (const word of ["worse", "unclear"]) verdict.querySelector(`.${word}-count`).textContent = of(word);
  }

  // Show the name of a block in its first visible row.
  function heads(body) {
    let pending = false;
    for (const row of all("tr.filtered", body)) {
      if (row.classList.contains("begins")) pending = true;
      row.classList.toggle("head", pending && !row.hidden);
      if (!row.hidden) pending = false;
    }
  }

  function chosen() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    return runs.filter((run) => {
      const has = { experiment: run[EXPERIMENT], size: run[SIZE], data: run[DATA], model: run[MODEL] };
      if (Object.keys(has).some((kind) => wanted[kind].size && !wanted[kind].has(has[kind]))) return false;
      if (wanted.protocol.size && run[STATUS] === "done"
        && ![...wanted.protocol].some((protocol) => run[PROTOCOL[protocol]] !== null)) return false;
      if (!words.length) return true;
      const text = `${COLUMNS.slice(0, 5).map((column) => column.show(run)).join(" ")} ${run[NAME]} ${run[DATA]} ${run[MODEL]} seed=${run[SEED]} ${run[STATUS]}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
  }

  function compare(one, other) {
    const a = one[order.key], b = other[order.key];
    if (a === null || b === null) return (a === null) - (b === null);
    const sign = order.down ? -1 : 1;
    return sign * (typeof a === "number" ? a - b : String(a).localeCompare(String(b)));
  }

  function list() {
    const columns = COLUMNS.filter((column) => !column.protocol
      || (wanted.protocol.size ? wanted.protocol.has(column.protocol) : true));
    const matching = chosen().sort(compare);
    const table = document.getElementById("list");
    table.tHead.replaceChildren(headRow(columns));
    table.tBodies[0].replaceChildren(...matching.slice(0, most).map((run) => {
      const row = document.createElement("tr");
      for (const column of columns) row.append(cell(column, run));
      return row;
    }));
    document.getElementById("shown").textContent = matching.length === runs.length
      ? `${runs.length} runs` : `${matching.length} of ${runs.length} runs`;
    const more = document.getElementById("more");
    more.hidden = matching.length <= most;
    more.textContent = `Show ${Math.min(STEP, matching.length - most)} more of ${matching.length - most}`;
    remember();
  }

  function headRow(columns) {
    const row = document.createElement("tr");
    for (const column of columns) {
      const head = document.createElement("th");
      const button = document.createElement("button");
      head.scope = "col";
      button.type = "button";
      button.textContent = column.title;
      if (column.right) head.className = "right";
      if (order.key === column.key) head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      button.addEventListener("click", () => {
        order = { key: column.key, down: order.key === column.key && !order.down };
        list();
        all("#list th button").find((button) => button.textContent === column.title)?.focus();
      });
      head.append(button);
      row.append(head);
    }
    return row;
  }

  function cell(column, run) {
    const made = document.createElement("td");
    const text = column.show(run);
    if (column.right) made.className = "right";
    if (column.link) {
      const link = document.createElement("a");
      link.href = `runs/${encodeURIComponent(run[NAME])}.html`;
      link.textContent = text;
      made.append(link);
    } else {
      made.textContent = text;
    }
    return made;
  }

  // Keep filters, order and search over reloads, also when a running sweep updates the report.
  function remember() {
    const ticked = all("input:checked", form).map((box) => [box.name, box.value]);
    try {
      sessionStorage.setItem("focusing", JSON.stringify({ ticked, order, search: search.value }));
    } catch { /* private windows may forbid it */ }
  }

  function recall() {
    try {
      const kept = JSON.parse(sessionStorage.getItem("focusing"));
      if (!kept) return;
      for (const box of all("input", form)) {
        box.checked = kept.ticked.some(([name, value]) => box.name === name && box.value === value);
      }
      order = kept.order;
      search.value = kept.search;
    } catch { /* start with the defaults */ }
  }

  form.addEventListener("change", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(filter));
  search.addEventListener("input", () => { most = STEP; list(); });
  document.getElementById("more").addEventListener("click", () => { most += STEP; list(); });
  document.addEventListener("click", (event) => {
    for (const menu of all("details[open]", form)) if (!menu.contains(event.target)) menu.open = false;
  });
  form.addEventListener("keydown", (event) => {
    const menu = event.target.closest("details[open]");
    if (event.key !== "Escape" || !menu) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  const large = document.getElementById("large");
  document.addEventListener("click", (event) => {
    const zoom = event.target.closest("a.zoom");
    if (zoom) {
      event.preventDefault();
      const [from, to] = [zoom.querySelector("img"), large.querySelector("img")];
      to.src = from.src;
      to.alt = from.alt;
      large.showModal();
    } else if (event.target === large || event.target.parentElement === large) large.close();
  });
  // Open folded sections that a link points to.
  const open = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (const details of target ? all("details.fold", target) : []) details.open = true;
    for (let at = target?.closest("details"); at; at = at.parentElement.closest("details")) at.open = true;
    target?.scrollIntoView();
  };
  addEventListener("hashchange", open);
  open();
  // Print closed notes, too.
  addEventListener("beforeprint", () => {
    for (const details of all("details.more")) { details.dataset.was = details.open; details.open = true; }
  });
  addEventListener("afterprint", () => {
    for (const details of all("details.more")) details.open = details.dataset.was === "true";
  });
  recall();
  filter();
})();
