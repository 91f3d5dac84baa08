import { BoxSpec } from "../../src/model/task.ts";
import { openSshBackend } from "../../src/sandbox/ssh/ssh.ts";

/** Opens a box with something running in it, says its name, and waits to be killed. */
const backend = await openSshBackend({ env: process.env, warn: () => {}, runRoot: process.argv[2]! });
const box = await backend.open({ spec: BoxSpec.parse({}), onGateway: (connection) => connection.destroy() });
await box.spawn(["sleep", "3141"]);
process.stdout.write(`${box.id}\n`);
setInterval(() => {}, 60_000);
