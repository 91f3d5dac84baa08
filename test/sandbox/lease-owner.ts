/** A program that opens boxes and then waits to be killed; run by the lease tests. argv[2]: local or process. */
import { BoxSpec } from "../../src/model/task.ts";
import { openLocalBackend } from "../../src/sandbox/local/local.ts";
import { openProcessBackend } from "../../src/sandbox/process/process.ts";

const backend =
	process.argv[2] === "local" ? await openLocalBackend() : await openProcessBackend({ warn: () => {} });
const open = () => backend.open({ spec: BoxSpec.parse({}), onGateway: (connection) => connection.destroy() });
const boxes = [await open(), await open()];
for (const box of boxes) {
	await box.exec(
		`setsid -f bash -c 'trap "" TERM HUP INT; exec -a orphan-${process.pid} sleep 86400' > /dev/null 2>&1`,
	);
	await box.exec(`while ! pgrep -f 'orphan-${process.pid}' > /dev/null; do sleep 0.02; done`);
}
if (process.argv[3] === "frozen") await boxes[0]!.freeze();
console.log(JSON.stringify({ boxes: boxes.map((box) => box.id) }));
setInterval(() => {}, 60_000);
