import { quote } from "./quote.ts";

/** Shell lines that tell a process from a later one of the same number. */
const STARTED = `started() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20; }`;

/** Shell lines in which a program writes down who it is, and becomes the program that follows as arguments. */
export function recorded(file: string): string {
	const become = `${STARTED}; echo "$$ $(started $$)" > "$0"; exec "$@"`;
	return `exec /bin/sh -c ${quote(become)} ${quote(file)}`;
}

/** Shell lines that end the process that is on record; no stranger that has its number since. */
export function endRecorded(file: string): string {
	return `
${STARTED}
if read -r pid start < ${quote(file)}; then
	for signal in TERM KILL; do
		tries=0
		[ "$(started "$pid")" = "$start" ] && kill "-$signal" "$pid"
		while [ "$(started "$pid")" = "$start" ] && [ $tries -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
	done
fi 2>/dev/null
`;
}

/** Shell lines that end whatever has this assignment in its environment, wherever it went. */
export function endMarked(assignment: string): string {
	return `
for round in 1 2 3 4 5; do
	found=
	for process in /proc/[0-9]*; do
		if tr '\\0' '\\n' < "$process/environ" 2>/dev/null | grep -qxF ${quote(assignment)}; then
			found=yes
			kill -KILL "\${process#/proc/}" 2>/dev/null
		fi
	done
	[ -z "$found" ] && break
done
`;
}
