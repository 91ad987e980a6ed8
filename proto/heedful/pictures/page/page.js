// The page: its state, its controls, and what changes when they do.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const weights = readWeights(data);
  const at = (id) => document.getElementById(id);
  const make = (tag, text, parent) => {
    const element = document.createElement(tag);
    element.textContent = text;
    parent.append(element);
    return element;
  };
  const names = data.tokens.map((token) => token.name);
  const percent = (share) => `${(share * 100).toFixed(1)} %`;
  const darkPage = window.matchMedia("(prefers-color-scheme: dark)");
  const state = {
    layer: data.layer, head: data.head, row: 0, hideSpecial: false, scale: "map", cell: null,
  };
  let ramp, style, layout, shown, kept, image;

  function chooseColours() {
    ramp = makeRamp(data.colours, darkPage.matches);
    const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    style = { ink: variable("--ink"), soft: variable("--soft"), accent: variable("--accent") };
    const empty = variable("--empty");
    style.empty = [1, 3, 5].map((place) => parseInt(empty.slice(place, place + 2), 16));
    at("ramp").style.background = ramp.gradient;
  }

  const weight = (row, key) => shown[row * weights.keys + key];
  const sum = (row, keys) => keys.reduce((total, key) => total + (weight(row, key) || 0), 0);
  const tops = () => {
    const rows = Array(weights.queries).fill(0);
    shown.forEach((value, place) => {
      const row = Math.floor(place / weights.keys);
      if (value > rows[row]) rows[row] = value;
    });
    return rows;
  };

  function compute() {
    const map = weights.map(state.layer, state.head);
    const content = weights.withoutSpecial(map);
    kept = content.kept;
    shown = state.hideSpecial ? content.map : map;
  }

  function spanOf(row) {
    if (state.scale === "one") return 1;
    return (state.scale === "row" ? shown.tops[row] : Math.max(...shown.tops)) || 1;
  }

  function colourMap() {
    const spans = shown.tops.map((_, row) => spanOf(row));
    const share = (place) => shown[place] / spans[Math.floor(place / weights.keys)];
    image = pixels(weights.keys, weights.queries, share, ramp, style.empty);
  }

  function paintMap() {
    drawMap(at("map"), layout, {
      rows: weights.queries, columns: weights.keys, image, style,
      rowNames: data.queries.map((query) => names[query]), columnNames: names,
      query: state.row, at: state.cell,
    });
  }

  function paintOverview() {
    const side = Math.max(18, Math.min(64, Math.floor(380 / weights.heads) - 4));
    at("overview-block").hidden = weights.layers * weights.heads < 2;
    drawOverview(at("overview"), weights, side, state, ramp, style);
    at("overview").dataset.side = side;
  }

  // The text is shaded by what its parts get, on a scale of its own: a part may be several tokens.
  function paintText() {
    const parts = [...document.querySelectorAll(".text span")];
    const shares = parts.map((part) => sum(state.row, part.keys));
    const top = state.scale === "one" ? 1 : Math.max(...shares, 0) || 1;
    parts.forEach((part, place) => {
      const share = shares[place] / top;
      part.style.background = share > 0.02 ? ramp.css(share) : "none";
      part.style.color = share > 0.02 ? ramp.inkOn(share) : "inherit";
      part.title = `${part.keys.map((key) => `${names[key]} ${(weight(state.row, key) || 0).toFixed(4)}`).join(", ")}`;
      part.classList.toggle("query", part.keys.includes(data.queries[state.row]));
    });
    at("largest").textContent = top.toFixed(3);
  }

  function paintSpecial() {
    const map = weights.map(state.layer, state.head);
    document.querySelectorAll(".chips b").forEach((chip) => {
      const value = map[state.row * weights.keys + chip.key];
      chip.textContent = `${names[chip.key]} ${percent(value)}`;
      chip.classList.toggle("hidden", state.hideSpecial);
      chip.classList.toggle("query", chip.key === data.queries[state.row]);
    });
    const mean = kept.reduce((total, mass) => total + mass, 0) / kept.length;
    const from = names[data.queries[state.row]];
    at("mass").textContent = state.hideSpecial
      ? `Special tokens are hidden and rows sum to 1 without them. Hidden: ${percent(1 - kept[state.row])} of what ${from} attends to, ${percent(1 - mean)} of the whole map.`
      : `${percent(1 - kept[state.row])} of what ${from} attends to lies on special tokens, ${percent(1 - mean)} of the whole map.`;
  }

  function paintTable() {
    const keys = names.map((_, key) => key).filter((key) => !Number.isNaN(weight(state.row, key)));
    keys.sort((a, b) => weight(state.row, b) - weight(state.row, a));
    at("top").replaceChildren();
    for (const key of keys.slice(0, 10)) {
      const line = make("tr", "", at("top"));
      make("td", names[key], line).dir = "auto";
      make("td", weight(state.row, key).toFixed(4), line);
    }
  }

  function nameChoice() {
    const of = (position, numbers) => (position === null ? `mean of ${numbers.length}` : numbers[position]);
    at("layer-name").textContent = of(state.layer, data.layers);
    at("head-name").textContent = data.averaged ? `mean of ${data.heads.length}` : of(state.head, data.heads);
    at("layer").disabled = at("layer-mean").checked = state.layer === null;
    at("head").disabled = at("head-mean").checked = state.head === null;
    if (state.layer !== null) at("layer").value = state.layer;
    if (state.head !== null) at("head").value = state.head;
    at("query").value = state.row;
  }

  function readOut() {
    if (!state.cell) return;
    const { row, key } = state.cell;
    const value = weight(row, key);
    let rank = 1;
    for (let other = 0; other < weights.keys; other++) if (weight(row, other) > value) rank++;
    const said = Number.isNaN(value) ? "hidden" : `${value.toFixed(4)}, rank ${rank} of ${weights.keys}`;
    const token = data.tokens[key];
    const spelt = token.piece !== token.name ? ` (${token.piece})` : "";
    at("cell").textContent = `layer ${at("layer-name").textContent}, head ${at("head-name").textContent}: ${names[data.queries[row]]} attends to ${token.name}${spelt}: ${said}`;
  }

  function update(change) {
    const before = `${state.layer} ${state.head}`;
    Object.assign(state, change);
    compute();
    shown.tops = tops();
    nameChoice();
    paintText();
    paintSpecial();
    paintTable();
    colourMap();
    paintMap();
    if (before !== `${state.layer} ${state.head}` || !at("overview").dataset.side) paintOverview();
    readOut();
  }

  function within(position, change, count) {
    const from = position ?? (change > 0 ? -1 : count);
    return Math.min(Math.max(from + change, 0), count - 1);
  }

  function pickKey(key) {
    const row = data.queries.indexOf(key);
    if (row >= 0) update({ row });
  }

  function cellUnder(event) {
    const box = at("map").getBoundingClientRect();
    const shrink = layout.width / box.width;
    const key = Math.floor(((event.clientX - box.left) * shrink - layout.margin) / layout.cell);
    const row = Math.floor(((event.clientY - box.top) * shrink - layout.margin) / layout.cell);
    return key >= 0 && row >= 0 && key < weights.keys && row < weights.queries ? { row, key } : null;
  }

  function moveTo(cell) {
    state.cell = cell;
    paintMap();
    readOut();
  }

  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const turns = { "[": ["layer", -1], "]": ["layer", 1], ",": ["head", -1], ".": ["head", 1] };
  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const cell = state.cell ?? { row: state.row, key: 0 };
    if (steps[event.key]) {
      const [down, right] = state.cell ? steps[event.key] : [0, 0];
      moveTo({ row: within(cell.row, down, weights.queries), key: within(cell.key, right, weights.keys) });
    } else if (turns[event.key]) {
      const [axis, change] = turns[event.key];
      update({ [axis]: within(state[axis], change, weights[`${axis}s`]) });
    } else if (event.key === "Enter" || event.key === " ") {
      update({ row: cell.row });
    } else {
      return;
    }
    event.preventDefault();
  }

  function buildHeader() {
    document.title = `Attention of ${data.model || "a model"}`;
    const model = at("model");
    model.textContent = data.model || "Attention";
    make("small", data.version, model);
    for (const label of data.labels.slice(0, 6)) {
      make("dt", label.label, at("labels")).title = label.label;
      const bar = make("i", "", make("dd", "", at("labels")));
      bar.parentElement.className = "bar";
      bar.style.width = percent(label.probability).replace(" ", "");
      make("dd", percent(label.probability), at("labels"));
    }
  }

  function buildTexts() {
    for (const text of data.texts) {
      const line = make("p", "", at("texts"));
      line.className = "text";
      line.dir = "auto";
      if (text.language) line.lang = text.language;
      for (const part of text.parts) {
        if (!part.keys.length) { line.append(part.text); continue; }
        const span = make("span", part.text, line);
        span.keys = part.keys;
        span.addEventListener("click", () => pickKey(part.keys[0]));
      }
    }
    data.tokens.forEach((token, key) => {
      if (!token.special) return;
      const chip = make("b", token.name, at("special"));
      chip.key = key;
      chip.addEventListener("click", () => pickKey(key));
    });
    data.queries.forEach((query, row) => {
      const choice = make("option", `${query}: ${names[query]}`, at("query"));
      choice.value = row;
    });
  }

  function wire() {
    at("layer").max = weights.layers - 1;
    at("head").max = weights.heads - 1;
    at("layer-mean").parentElement.hidden = at("layer").hidden = weights.layers < 2;
    at("head-mean").parentElement.hidden = at("head").hidden = weights.heads < 2;
    for (const axis of ["layer", "head"]) {
      at(axis).addEventListener("input", (event) => update({ [axis]: Number(event.target.value) }));
      at(`${axis}-mean`).addEventListener("change", (event) =>
        update({ [axis]: event.target.checked ? null : Number(at(axis).value) }));
    }
    at("scale").addEventListener("change", (event) => update({ scale: event.target.value }));
    at("query").addEventListener("change", (event) => update({ row: Number(event.target.value) }));
    at("hide-special").addEventListener("change", (event) => update({ hideSpecial: event.target.checked }));
    at("map").addEventListener("mousemove", (event) => moveTo(cellUnder(event)));
    at("map").addEventListener("mouseleave", () => moveTo(null));
    at("map").addEventListener("click", (event) => {
      const cell = cellUnder(event);
      if (cell) update({ row: cell.row });
    });
    at("map").addEventListener("keydown", onKey);
    at("overview").addEventListener("click", (event) => {
      const step = Number(at("overview").dataset.side) + 4;
      const shrink = (weights.heads * step) / at("overview").getBoundingClientRect().width;
      update({
        head: within(Math.floor((event.offsetX * shrink) / step), 0, weights.heads),
        layer: within(Math.floor((event.offsetY * shrink) / step), 0, weights.layers),
      });
    });
    const redraw = () => {
      chooseColours();
      layout = mapLayout(at("map"), weights.queries, weights.keys, names);
      delete at("overview").dataset.side;
      update({});
    };
    darkPage.addEventListener("change", redraw);
    window.addEventListener("resize", redraw);
    redraw();
  }

  buildHeader();
  buildTexts();
  wire();
})();
