import { useEffect, useRef } from "react";

/** What each key does, by `event.key`; two keys in a row are written `g h`. */
export type Keys = Record<string, () => void>;

const NEXT_KEY_MS = 1000;

/** Keys work where nobody types. */
export function useKeys(keys: Keys): void {
	const current = useRef(keys);
	current.current = keys;
	useEffect(() => {
		let before: { key: string; at: number } | null = null;
		const onKeyDown = (event: KeyboardEvent) => {
			if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target))
				return;
			const pair =
				before !== null && event.timeStamp - before.at < NEXT_KEY_MS ? `${before.key} ${event.key}` : null;
			const action = (pair !== null ? current.current[pair] : undefined) ?? current.current[event.key];
			before = { key: event.key, at: event.timeStamp };
			if (action === undefined) return;
			event.preventDefault();
			action();
		};
		addEventListener("keydown", onKeyDown);
		return () => removeEventListener("keydown", onKeyDown);
	}, []);
}

/** Esc works everywhere, also where somebody types, and before the shell's, which leaves the page; null while it means nothing. */
export function useEscape(act: (() => void) | null): void {
	const current = useRef(act);
	current.current = act;
	useEffect(() => {
		const onKeyDown = (event: KeyboardEvent) => {
			if (event.key !== "Escape" || event.defaultPrevented || current.current === null) return;
			event.preventDefault();
			current.current();
		};
		// Whichever was mounted first: this one hears of it on the way down.
		addEventListener("keydown", onKeyDown, { capture: true });
		return () => removeEventListener("keydown", onKeyDown, { capture: true });
	}, []);
}

function isTyping(target: EventTarget | null): boolean {
	return (
		target instanceof HTMLInputElement ||
		target instanceof HTMLTextAreaElement ||
		target instanceof HTMLSelectElement
	);
}
