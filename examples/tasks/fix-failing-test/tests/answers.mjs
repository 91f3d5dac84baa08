// Prints what the functions answer. The comparison happens outside of this process, which runs untrusted code.
const { format, parse } = await import(`${process.env.HOME}/workdir/src/duration.mjs`);

const refuses = (text) => {
  try {
    return parse(text);
  } catch {
    return "refused";
  }
};

const checks = {
  given: () => [parse("1h 30m"), parse("30s 2m"), format(5400), format(59), format(0)],
  more: () => [
    parse("  1d\t2h  3m 4s "),
    format(93784),
    format(86399),
    format(3599),
    refuses("1h 1h"),
    refuses("1x"),
    refuses(""),
    [0, 1, 60, 61, 3600, 86400, 172799].every((seconds) => parse(format(seconds)) === seconds),
  ],
};

console.log(JSON.stringify(checks[process.argv[2]]()));
