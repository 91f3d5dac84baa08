import { useCallback, useEffect, useRef, useState } from "react";

export interface Loaded<T> {
	/** What came last; kept while it is loaded anew and when that fails. */
	value: T | null;
	error: unknown;
	isLoading: boolean;
	reload: () => void;
}

/**
 * Loads when `key` changes, and again every `everyMs` while the page can be seen. An answer that was overtaken by a
 * later question is dropped.
 */
export function useLoaded<T>(
	key: string,
	load: (signal: AbortSignal) => Promise<T>,
	everyMs?: number,
): Loaded<T> {
	const [state, setState] = useState<{ key: string; value: T | null; error: unknown; isLoading: boolean }>({
		key,
		value: null,
		error: null,
		isLoading: true,
	});
	const [turn, setTurn] = useState(0);
	const loader = useRef(load);
	loader.current = load;

	// biome-ignore lint/correctness/useExhaustiveDependencies: `turn` is what asks for another look
	useEffect(() => {
		const controller = new AbortController();
		setState((before) => ({
			key,
			value: before.key === key ? before.value : null,
			error: before.key === key ? before.error : null,
			isLoading: true,
		}));
		loader.current(controller.signal).then(
			(value) => {
				if (!controller.signal.aborted) setState({ key, value, error: null, isLoading: false });
			},
			(error: unknown) => {
				if (controller.signal.aborted) return;
				setState((before) => ({ ...before, error, isLoading: false }));
			},
		);
		return () => controller.abort();
	}, [key, turn]);

	const reload = useCallback(() => setTurn((before) => before + 1), []);
	useEffect(() => {
		if (everyMs === undefined) return;
		const timer = setInterval(() => {
			if (document.visibilityState === "visible") reload();
		}, everyMs);
		return () => clearInterval(timer);
	}, [everyMs, reload]);
	const { value, error, isLoading } = state;
	return { value: state.key === key ? value : null, error, isLoading, reload };
}
