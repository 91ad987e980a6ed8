// Drawing: the colour scale, the map with its labels, the overview of all maps.
function makeRamp(points, dark) {
  // On paper little is light and much is dark; on a dark page the other way round.
  const scale = dark ? points : [...points].reverse();
  const colour = (share) => {
    const place = Math.min(Math.max(share, 0), 1) * (scale.length - 1);
    const index = Math.min(Math.floor(place), scale.length - 2);
    return scale[index].map((low, i) => Math.round(low + (scale[index + 1][i] - low) * (place - index)));
  };
  const steps = Array.from({ length: 256 }, (_, step) => colour(step / 255));
  const step = (share) => steps[Math.round(Math.min(Math.max(share, 0), 1) * 255)];
  const css = (share) => `rgb(${colour(share).join(" ")})`;
  const inkOn = (share) => {
    const [red, green, blue] = colour(share);
    return 0.299 * red + 0.587 * green + 0.114 * blue > 130 ? "#000" : "#fff";
  };
  return { step, css, inkOn, gradient: `linear-gradient(to right, ${scale.map((c) => `rgb(${c.join(" ")})`)})` };
}

function sharp(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

// One pixel per cell, to be drawn larger; shares is a function of the place, NaN stays empty.
function pixels(width, height, shares, ramp, empty) {
  const image = new ImageData(width, height);
  for (let place = 0; place < width * height; place++) {
    const share = shares(place);
    const colour = Number.isNaN(share) ? empty : ramp.step(share);
    image.data[place * 4] = colour[0];
    image.data[place * 4 + 1] = colour[1];
    image.data[place * 4 + 2] = colour[2];
    image.data[place * 4 + 3] = 255;
  }
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

function shorten(pen, name, room) {
  if (pen.measureText(name).width <= room) return name;
  let kept = [...name];
  while (kept.length && pen.measureText(kept.join("") + "…").width > room) kept.pop();
  return kept.join("") + "…";
}

// Chinese, Japanese and Korean run downwards and end above the column; the rest is turned.
function writeUpwards(pen, name, x, y) {
  pen.save();
  pen.translate(x, y);
  if (/^[\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff00-\uffef]+$/.test(name)) {
    pen.textAlign = "center";
    [...name].reverse().forEach((sign, place) => pen.fillText(sign, 0, -6 - place * 13));
  } else {
    pen.textAlign = "left";
    pen.rotate(-Math.PI / 2);
    pen.fillText(name, 0, 0);
  }
  pen.restore();
}

// Where things are on the map's canvas, for a page this wide.
function mapLayout(canvas, rows, columns, names) {
  const pen = canvas.getContext("2d");
  pen.font = "12px system-ui, sans-serif";
  const longest = Math.max(...names.map((name) => pen.measureText(name).width));
  const margin = Math.ceil(Math.min(longest, 110)) + 30;
  const room = Math.min(document.documentElement.clientWidth - 48, 760) - margin - 8;
  const cell = Math.min(34, Math.max(room / Math.max(columns, rows), 1));
  return { margin, cell, width: margin + cell * columns + 8, height: margin + cell * rows + 8 };
}

function drawMap(canvas, layout, view) {
  const { margin, cell } = layout;
  const pen = sharp(canvas, layout.width, layout.height);
  const { rows, columns, style } = view;
  pen.imageSmoothingEnabled = false;
  pen.drawImage(view.image, margin, margin, cell * columns, cell * rows);
  pen.font = "12px system-ui, 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', sans-serif";
  pen.textBaseline = "middle";
  const step = Math.max(1, Math.ceil(13 / cell));
  const label = (name, bold) => {
    pen.fillStyle = bold ? style.accent : style.ink;
    return shorten(pen, name, margin - 30);
  };
  pen.textAlign = "right";
  for (let row = 0; row < rows; row += step) {
    pen.fillText(label(view.rowNames[row], row === view.query), margin - 6, margin + (row + 0.5) * cell);
  }
  for (let column = 0; column < columns; column += step) {
    writeUpwards(pen, label(view.columnNames[column], false), margin + (column + 0.5) * cell, margin - 6);
  }
  pen.fillStyle = style.soft;
  pen.textAlign = "center";
  pen.fillText("key: attended to →", margin + (cell * columns) / 2, 9);
  pen.save();
  pen.translate(9, margin + (cell * rows) / 2);
  pen.rotate(-Math.PI / 2);
  pen.fillText("← query: attends", 0, 0);
  pen.restore();
  pen.strokeStyle = style.accent;
  pen.lineWidth = 1;
  pen.strokeRect(margin, margin + view.query * cell, cell * columns, cell);
  if (view.at) {
    pen.lineWidth = 2;
    pen.strokeStyle = style.ink;
    pen.strokeRect(margin + view.at.key * cell, margin + view.at.row * cell, cell, cell);
  }
}

function drawOverview(canvas, weights, side, picked, ramp, style) {
  const gap = 4;
  const pen = sharp(canvas, weights.heads * (side + gap), weights.layers * (side + gap));
  pen.imageSmoothingEnabled = false;
  const grain = Math.min(weights.keys, side);
  for (let layer = 0; layer < weights.layers; layer++) {
    for (let head = 0; head < weights.heads; head++) {
      const small = weights.thumbnail(layer, head, grain);
      const x = head * (side + gap) + 2, y = layer * (side + gap) + 2;
      pen.drawImage(pixels(grain, grain, (place) => small[place], ramp, style.empty), x, y, side, side);
      if ((picked.layer ?? layer) === layer && (picked.head ?? head) === head) {
        pen.strokeStyle = style.accent;
        pen.lineWidth = 2;
        pen.strokeRect(x - 1, y - 1, side + 2, side + 2);
      }
    }
  }
}
