/** Numbers as people read them. */

export function showSeconds(seconds: number): string {
	if (seconds < 60) return `${seconds.toFixed(1)} s`;
	const whole = Math.floor(seconds);
	if (whole < 3600) return `${Math.floor(whole / 60)}:${two(whole % 60)} min`;
	return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)} h`;
}

/** 9,812 as it is; 1,234,567 as 1.2M. */
export function showCount(count: number): string {
	if (count < 100_000) return count.toLocaleString("en-US");
	if (count < 1_000_000) return `${Math.round(count / 1000)}k`;
	return `${(count / 1_000_000).toFixed(1)}M`;
}

export function showReward(reward: number | null): string {
	return reward === null ? "–" : reward.toFixed(2);
}

export function showBytes(bytes: number): string {
	if (bytes < 1024) return `${bytes} B`;
	if (bytes < 1024 * 1024) return `${(bytes / 1024).toFixed(1)} KiB`;
	if (bytes < 1024 ** 3) return `${(bytes / 1024 ** 2).toFixed(1)} MiB`;
	return `${(bytes / 1024 ** 3).toFixed(1)} GiB`;
}

export function showTime(epochMs: number): string {
	const at = new Date(epochMs);
	const date = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
	return `${date} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

export function plural(count: number, noun: string): string {
	return `${showCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

function two(number: number): string {
	return String(number).padStart(2, "0");
}
