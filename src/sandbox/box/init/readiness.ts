/** Those who wait for a pipe to have something to read, or room to write. */
const sleepers = new Set<() => void>();

/** Until any pipe of ours changes. A look every second costs nothing and forgives a signal that got lost. */
export function sleepUntilReady(): Promise<void> {
	return new Promise((done) => {
		const over = () => {
			clearTimeout(timer);
			sleepers.delete(over);
			done();
		};
		const timer = setTimeout(over, 1_000);
		sleepers.add(over);
	});
}

/** The kernel does not say which pipe it was; everybody looks again. */
export function wake(): void {
	for (const over of [...sleepers]) over();
}
