// Weights as they came: one byte each, times its row's largest. Shape: layers, heads, queries, keys.
function readWeights(data) {
  const bytes = (text) => Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  const [layers, heads, queries, keys] = data.shape;
  const levels = bytes(data.levels);
  const largest = new DataView(bytes(data.row_max).buffer);
  const special = data.tokens.map((token) => token.special);
  const size = queries * keys;
  let known = { name: "", map: null };

  // Adds one layer's head to a sum; the file is little-endian whatever the machine.
  function add(sum, layer, head, share) {
    const first = (layer * heads + head) * queries;
    for (let row = 0; row < queries; row++) {
      const step = (largest.getFloat32((first + row) * 4, true) / 255) * share;
      const from = (first + row) * keys;
      for (let key = 0; key < keys; key++) sum[row * keys + key] += levels[from + key] * step;
    }
  }

  // The map of a layer and head by position; null is the mean over all.
  function map(layer, head) {
    const name = `${layer} ${head}`;
    if (known.name === name) return known.map;
    const chosen = (position, count) => (position === null ? [...Array(count).keys()] : [position]);
    const sum = new Float32Array(size);
    const ls = chosen(layer, layers), hs = chosen(head, heads);
    for (const l of ls) for (const h of hs) add(sum, l, h, 1 / (ls.length * hs.length));
    known = { name, map: sum };
    return sum;
  }

  // Special keys out (NaN), the rest scaled to sum to 1, and what the rest summed to before.
  function withoutSpecial(map) {
    const scaled = Float32Array.from(map), kept = new Float32Array(queries);
    for (let row = 0; row < queries; row++) {
      for (let key = 0; key < keys; key++) if (!special[key]) kept[row] += map[row * keys + key];
      for (let key = 0; key < keys; key++) {
        scaled[row * keys + key] = special[key] ? NaN : map[row * keys + key] / (kept[row] || 1);
      }
    }
    return { map: scaled, kept };
  }

  // A small map: the largest weight of each block of cells, as shares of the map's largest.
  function thumbnail(layer, head, side) {
    const first = (layer * heads + head) * queries;
    const small = new Float32Array(side * side);
    let top = 0;
    for (let row = 0; row < queries; row++) {
      const step = largest.getFloat32((first + row) * 4, true);
      const y = Math.floor((row * side) / queries) * side;
      for (let key = 0; key < keys; key++) {
        const place = y + Math.floor((key * side) / keys);
        const weight = levels[(first + row) * keys + key] * step;
        if (weight > small[place]) small[place] = weight;
        if (weight > top) top = weight;
      }
    }
    return small.map((weight) => weight / (top || 1));
  }

  return { layers, heads, queries, keys, map, withoutSpecial, thumbnail };
}
