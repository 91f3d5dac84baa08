/** However often it is called, `fn` runs one at a time, and once more after a call that came while it ran. */
export function coalesce(fn: () => Promise<void>, onError: (error: unknown) => void): () => void {
	let running = false;
	let again = false;
	const start = async () => {
		running = true;
		do {
			again = false;
			await fn().catch(onError);
		} while (again);
		running = false;
	};
	return () => {
		again = true;
		if (!running) void start();
	};
}
