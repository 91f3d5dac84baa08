const SECONDS = { d: 86400, h: 3600, m: 60, s: 1 };

/** "1h 30m" → 5400. Units may come in any order; a unit may stand only once. */
export function parse(text) {
  const seen = new Set();
  let total = 0;
  for (const part of text.trim().split(" ")) {
    const match = /^(\d+)([dhms])$/.exec(part);
    if (!match) throw new Error(`not a duration: ${text}`);
    const [, count, unit] = match;
    if (seen.has(unit)) throw new Error(`${unit} stands twice: ${text}`);
    seen.add(unit);
    total += count * SECONDS[unit];
  }
  return total;
}

/** 5400 → "1h 30m". Units of zero are left out; nothing at all is "0s". */
export function format(seconds) {
  const parts = [];
  let rest = seconds;
  for (const [unit, size] of Object.entries(SECONDS)) {
    const count = Math.round(rest / size);
    rest -= count * size;
    if (count > 0) parts.push(`${count}${unit}`);
  }
  return parts.join(" ");
}
