/** Numbers and times as people read them, in the command line's manner. */

export function showSeconds(seconds: number): string {
	if (seconds < 0.0995) return `${Math.round(seconds * 1000)} ms`;
	if (seconds < 60) return `${seconds.toFixed(1)} s`;
	const whole = Math.floor(seconds);
	if (whole < 3600) return `${Math.floor(whole / 60)}:${two(whole % 60)} min`;
	return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)} h`;
}

/** 812 as it is, 27.8k, 1.2M. */
export function showCount(count: number): string {
	if (count < 1000) return String(count);
	if (count < 999_950) return `${(count / 1000).toFixed(count < 99_950 ? 1 : 0)}k`;
	return `${(count / 1_000_000).toFixed(1)}M`;
}

/** Calls are counted from 1 where people read; the API counts from 0. */
export function showCall(index: number): string {
	return String(index + 1);
}

export function showReward(reward: number | null): string {
	return reward === null ? "–" : reward.toFixed(2);
}

export function showBytes(bytes: number): string {
	if (bytes < 1024) return `${bytes} B`;
	if (bytes < 1024 ** 2) return `${(bytes / 1024).toFixed(1)} KiB`;
	return `${(bytes / 1024 ** 2).toFixed(1)} MiB`;
}

export function showAgo(at: number, now: number): string {
	const seconds = Math.max(0, (now - at) / 1000);
	if (seconds < 5) return "just now";
	if (seconds < 60) return `${Math.floor(seconds)} s ago`;
	if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
	if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
	return `${Math.floor(seconds / 86_400)} d ago`;
}

/** `2026-03-09 14:05:07`, where the reader is. */
export function showTime(at: number): string {
	const time = new Date(at);
	const day = [time.getFullYear(), two(time.getMonth() + 1), two(time.getDate())].join("-");
	return `${day} ${[time.getHours(), time.getMinutes(), time.getSeconds()].map(two).join(":")}`;
}

function two(number: number): string {
	return String(number).padStart(2, "0");
}
