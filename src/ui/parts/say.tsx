import { type ReactNode, useState, useSyncExternalStore } from "react";
import { showAgo, showTime } from "../data/figures.ts";
import { sayError } from "../server.ts";

/** What went wrong and what to do; what was there stays on the page. */
export function Problem({ error, onRetry }: { error: unknown; onRetry?: (() => void) | undefined }) {
	if (error === null || error === undefined) return null;
	return (
		<div className="problem row" role="alert">
			<span>{sayError(error)}</span>
			{onRetry && (
				<button type="button" onClick={onRetry}>
					Try again
				</button>
			)}
		</div>
	);
}

/** Nothing here yet, and the one command that changes it. */
export function Empty({ children, command }: { children: ReactNode; command?: string }) {
	return (
		<div className="empty">
			<p>{children}</p>
			{command !== undefined && <Copyable text={command} />}
		</div>
	);
}

export function Copyable({ text, label = "copy" }: { text: string; label?: string }) {
	return (
		<div className="copyable">
			<pre className="code" tabIndex={0}>
				{text}
			</pre>
			<CopyButton text={text} label={label} />
		</div>
	);
}

/** `text` may be made when it is asked for: some are long. */
export function CopyButton({ text, label = "copy" }: { text: string | (() => string); label?: string }) {
	const [said, setSaid] = useState<string | null>(null);
	const copy = async () => {
		try {
			await navigator.clipboard.writeText(typeof text === "string" ? text : text());
			setSaid("copied");
		} catch {
			setSaid("could not copy");
		}
		setTimeout(() => setSaid(null), 1500);
	};
	return (
		<button type="button" className="small" onClick={copy}>
			{said ?? label}
		</button>
	);
}

/** `3 min ago`, with the exact time as its title. */
export function Ago({ at }: { at: number }) {
	const now = useNow(10_000);
	return (
		<time dateTime={new Date(at).toISOString()} title={showTime(at)}>
			{showAgo(at, now)}
		</time>
	);
}

/** The time, drawn anew every so often; whoever asks for the same beat shares one clock. */
export function useNow(everyMs: number): number {
	const clock = clockOf(everyMs);
	return useSyncExternalStore(clock.subscribe, clock.now);
}

const clocks = new Map<number, { subscribe: (listener: () => void) => () => void; now: () => number }>();

function clockOf(everyMs: number) {
	const known = clocks.get(everyMs);
	if (known !== undefined) return known;
	const listeners = new Set<() => void>();
	let now = Date.now();
	let timer: ReturnType<typeof setInterval> | undefined;
	const tick = () => {
		now = Date.now();
		for (const listener of listeners) listener();
	};
	const clock = {
		now: () => now,
		subscribe(listener: () => void) {
			listeners.add(listener);
			if (listeners.size === 1) {
				now = Date.now();
				timer = setInterval(tick, everyMs);
			}
			return () => {
				listeners.delete(listener);
				if (listeners.size === 0) clearInterval(timer);
			};
		},
	};
	clocks.set(everyMs, clock);
	return clock;
}
