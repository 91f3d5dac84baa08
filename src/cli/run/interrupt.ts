/** How the person asked for the end; `exitCode` is what shells expect then. */
export interface Interrupt {
	signal: NodeJS.Signals;
	exitCode: number;
}

/** npm passes on the Ctrl-C that the terminal has sent to all of us: one press can arrive twice. */
const SAME_PRESS_MS = 500;
const LONG_MS = 3_600_000;

/**
 * The first Ctrl-C (or SIGTERM, SIGHUP) calls back, to end in good order; the second one ends the process at once.
 * Boxes die with this process either way, and the next start clears away what they left. Losing whoever started us
 * (bin/paddock.mjs says so) counts as a first request, never as the second one.
 */
export function onInterrupt(callback: (interrupt: Interrupt) => void): Disposable {
	const numbers = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;
	let askedAt: number | null = null;
	const listener = (signal: NodeJS.Signals) => {
		const exitCode = 128 + numbers[signal as keyof typeof numbers];
		if (askedAt === null) {
			askedAt = performance.now();
			callback({ signal, exitCode });
		} else if (performance.now() - askedAt > SAME_PRESS_MS) process.exit(exitCode);
	};
	const onOrphaned = () => {
		if (askedAt === null) listener("SIGTERM");
	};
	const starter: NodeJS.EventEmitter = process;
	starter.on("orphaned", onOrphaned);
	const signals = Object.keys(numbers) as NodeJS.Signals[];
	for (const signal of signals) process.on(signal, listener);
	return {
		[Symbol.dispose]() {
			for (const signal of signals) process.off(signal, listener);
			starter.off("orphaned", onOrphaned);
		},
	};
}

/** A process that only waits for its signals would end by itself: nothing else keeps it. */
export function stayAlive(): Disposable {
	const staying = setInterval(() => {}, LONG_MS);
	return { [Symbol.dispose]: () => clearInterval(staying) };
}

/** Resolves when the person wants it to end; a second request ends the process at once. */
export function untilInterrupt(): Promise<Interrupt> {
	return new Promise((resolve) => {
		onInterrupt(resolve);
	});
}
