import { format, parse } from "../src/duration.mjs";

const checks = [
  ["parses hours and minutes", parse("1h 30m"), 5400],
  ["parses any order", parse("30s 2m"), 150],
  ["formats hours and minutes", format(5400), "1h 30m"],
  ["formats seconds", format(59), "59s"],
  ["formats nothing", format(0), "0s"],
];

let failed = 0;
for (const [name, actual, expected] of checks) {
  if (actual === expected) continue;
  failed += 1;
  console.log(`not ok: ${name}: expected ${expected}, got ${actual}`);
}
console.log(`${checks.length - failed} of ${checks.length} passed`);
process.exit(failed ? 1 : 0);
