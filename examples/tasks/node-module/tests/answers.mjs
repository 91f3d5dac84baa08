// Prints what the module answers. The comparison happens outside of this process, which runs untrusted code.
const { Cache } = await import(`${process.env.HOME}/workdir/index.mjs`);

const refusal = (limit) => {
  try {
    new Cache(limit);
    return "accepted";
  } catch (error) {
    return error instanceof RangeError ? "RangeError" : "another error";
  }
};

const checks = {
  stores() {
    const cache = new Cache(3);
    const isItself = cache.set("a", 1) === cache;
    cache.set("b", undefined).set("a", 2);
    return [isItself, cache.get("a"), cache.get("none") === undefined, cache.size, cache.delete("a"), cache.delete("a"), cache.size];
  },
  forgets() {
    const cache = new Cache(2).set("a", 1).set("b", 2);
    cache.get("a");
    cache.set("c", 3);
    const afterUse = [cache.get("a"), cache.get("b") === undefined, cache.get("c")];
    cache.set("a", 4).set("d", 5);
    return [...afterUse, cache.get("a"), cache.get("c") === undefined, cache.size];
  },
  iterates() {
    const cache = new Cache(3).set("a", 1).set("b", 2).set("c", 3);
    cache.get("a");
    cache.get("missing");
    return [...cache];
  },
  refuses: () => [0, -1, 1.5, "2", undefined, Number.NaN, 1].map(refusal),
};

console.log(JSON.stringify(checks[process.argv[2]]()));
