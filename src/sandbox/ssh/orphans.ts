import { RolloutError } from "../../errors.ts";
import type { SshConnection } from "../../host/ssh/connection.ts";
import { quote } from "../../host/ssh/quote.ts";
import { BOX_MARK } from "../box/wire.ts";

/**
 * Ends a box by the record its guardian left: first the guardian, which takes a box with walls along, then whatever
 * bears the box's mark. A process is known by its number and start time, so no stranger is hit.
 */
const END = `
started() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20; }
if read -r pid start < "$folder/guardian" 2>/dev/null; then
	for signal in TERM KILL; do
		tries=0
		[ "$(started "$pid")" = "$start" ] && kill "-$signal" "$pid"
		while [ "$(started "$pid")" = "$start" ] && [ $tries -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
	done
fi
for round in 1 2 3 4 5; do
	found=
	for process in /proc/[0-9]*; do
		if tr '\\0' '\\n' < "$process/environ" 2>/dev/null | grep -qx "${BOX_MARK}=$box"; then
			found=yes
			kill -KILL "\${process#/proc/}" 2>/dev/null
		fi
	done
	[ -z "$found" ] && break
done
rm -rf "$folder"
`;

export async function endRemoteBox(connection: SshConnection, boxId: string, folder: string): Promise<void> {
	if (!/^box-[0-9a-f]+$/.test(boxId) || !folder.endsWith(`/boxes/${boxId}`))
		throw new Error(`not a box and its folder: ${boxId}, ${folder}`);
	const { exitCode, stderr } = await connection.script(`box=${boxId}\nfolder=${quote(folder)}\n${END}`);
	if (exitCode === 0) return;
	throw new RolloutError("sandbox", "ssh_reap_failed", `${boxId}: ${stderr.trim()}`, { retryable: true });
}
