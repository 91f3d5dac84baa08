// Prints what the function answers. The comparison happens outside of this process, which runs untrusted code.
const { binarySearch } = await import(`${process.env.HOME}/workdir/search.mjs`);

const checks = {
  finds() {
    const numbers = [-8, -3, 0, 2, 9, 14, 27];
    return [...numbers, -9, 1, 100].map((wanted) => binarySearch(numbers, wanted)).concat(binarySearch([], 4));
  },
  first() {
    return [binarySearch([5, 5, 5, 5], 5), binarySearch([1, 2, 2, 2, 3, 3], 2), binarySearch([1, 2, 2, 2, 3, 3], 3)];
  },
  reads() {
    const numbers = Array.from({ length: 100_000 }, (_, index) => index * 2);
    let reads = 0;
    const counted = new Proxy(numbers, {
      get(target, key) {
        if (/^\d+$/.test(String(key))) reads += 1;
        return target[key];
      },
    });
    const found = binarySearch(counted, 131_072);
    return [found, reads <= 60];
  },
};

console.log(JSON.stringify(checks[process.argv[2]]()));
