import { RolloutError } from "../../errors.ts";
import type { SshConnection } from "../../host/ssh/connection.ts";
import { endMarked, endRecorded } from "../../host/ssh/leftovers.ts";
import { quote } from "../../host/ssh/quote.ts";
import { BOX_MARK } from "../box/wire.ts";

/** Ends a box by the record its guardian left, which takes a box with walls along, and by the box's mark. */
export async function endRemoteBox(connection: SshConnection, boxId: string, folder: string): Promise<void> {
	if (!/^box-[0-9a-f]+$/.test(boxId) || !folder.endsWith(`/boxes/${boxId}`))
		throw new Error(`not a box and its folder: ${boxId}, ${folder}`);
	const end = endRecorded(`${folder}/guardian`) + endMarked(`${BOX_MARK}=${boxId}`);
	const { exitCode, stderr } = await connection.script(`${end}rm -rf ${quote(folder)}`);
	if (exitCode === 0) return;
	throw new RolloutError("sandbox", "ssh_reap_failed", `${boxId}: ${stderr.trim()}`, { retryable: true });
}
