/** Never to 0 or below: that would be ourselves, or everybody. */
export function signal(pid: number, name: NodeJS.Signals, options: { group?: boolean } = {}): void {
	if (!Number.isInteger(pid) || pid <= 1) return;
	try {
		process.kill(options.group ? -pid : pid, name);
	} catch (error) {
		// It has ended already.
		if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
	}
}

export function isAlive(pid: number): boolean {
	try {
		process.kill(pid, 0);
		return true;
	} catch (error) {
		return (error as NodeJS.ErrnoException).code === "EPERM";
	}
}
