// Prints what the function answers. The comparison happens outside of this process, which runs untrusted code.
import { readSync, writeSync } from "node:fs";

const { binarySearch } = await import(`${process.env.HOME}/workdir/search.mjs`);

/** The number at an index, asked of whoever counts the questions: nothing in this process could. */
function ask(index) {
  writeSync(1, `? ${index}\n`);
  const byte = Buffer.alloc(1);
  let line = "";
  while (readSync(0, byte) === 1 && byte[0] !== 10) line += byte.toString();
  return line === "none" ? undefined : Number(line);
}

const checks = {
  finds() {
    const numbers = [-8, -3, 0, 2, 9, 14, 27];
    return [...numbers, -9, 1, 100].map((wanted) => binarySearch(numbers, wanted)).concat(binarySearch([], 4));
  },
  first() {
    return [binarySearch([5, 5, 5, 5], 5), binarySearch([1, 2, 2, 2, 3, 3], 2), binarySearch([1, 2, 2, 2, 3, 3], 3)];
  },
  reads(length, wanted) {
    const sorted = new Proxy([], {
      get(target, key) {
        if (key === "length") return Number(length);
        return /^\d+$/.test(String(key)) ? ask(key) : target[key];
      },
    });
    return [binarySearch(sorted, Number(wanted))];
  },
};

const [check, ...rest] = process.argv.slice(2);
console.log(JSON.stringify(checks[check](...rest)));
