import { useEffect, useRef } from "react";

/** What each key does, by `event.key`; two keys in a row are written `g h`. */
export type Keys = Record<string, () => void>;

interface Layer {
	keys: () => Keys;
	/** Also where somebody types. */
	isEverywhere: boolean;
}

const NEXT_KEY_MS = 1000;
/** The shell's first, what lies above it after it. */
const layers: Layer[] = [];

/** Keys work where nobody types and no dialog is open. A page's win over the shell's; two keys in a row win over one. */
export function useKeys(keys: Keys, { isShell = false } = {}): void {
	useLayer(keys, { isShell, isEverywhere: false });
}

/** Esc works everywhere, also where somebody types; null while it means nothing. */
export function useEscape(act: (() => void) | null): void {
	useLayer(act === null ? {} : { Escape: act }, { isShell: false, isEverywhere: true });
}

function useLayer(keys: Keys, { isShell, isEverywhere }: { isShell: boolean; isEverywhere: boolean }): void {
	const current = useRef(keys);
	current.current = keys;
	useEffect(() => {
		const layer = { keys: () => current.current, isEverywhere };
		if (isShell) layers.unshift(layer);
		else layers.push(layer);
		if (layers.length === 1) addEventListener("keydown", onKeyDown);
		return () => {
			layers.splice(layers.indexOf(layer), 1);
			if (layers.length === 0) removeEventListener("keydown", onKeyDown);
		};
	}, [isShell, isEverywhere]);
}

let before: { key: string; at: number } | null = null;

function onKeyDown(event: KeyboardEvent): void {
	if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
	if (document.querySelector("dialog[open]") !== null) return;
	const able = isTyping(event.target) ? layers.filter((layer) => layer.isEverywhere) : layers;
	const isSoon = before !== null && event.timeStamp - before.at < NEXT_KEY_MS;
	const action = (isSoon ? find(able, `${before!.key} ${event.key}`) : undefined) ?? find(able, event.key);
	before = { key: event.key, at: event.timeStamp };
	if (action === undefined) return;
	event.preventDefault();
	action();
}

function find(able: readonly Layer[], keys: string): (() => void) | undefined {
	return able.findLast((layer) => layer.keys()[keys] !== undefined)?.keys()[keys];
}

function isTyping(target: EventTarget | null): boolean {
	return (
		target instanceof HTMLInputElement ||
		target instanceof HTMLTextAreaElement ||
		target instanceof HTMLSelectElement
	);
}
