import { BoxSpec } from "../../src/model/task.ts";
import { openSshProvider } from "../../src/sandbox/ssh/ssh.ts";

/** Opens a box with something running in it, says its name, and waits to be killed. */
const provider = await openSshProvider({ env: process.env, warn: () => {}, runRoot: process.argv[2]! });
const box = await provider.open({ spec: BoxSpec.parse({}), onGateway: (connection) => connection.destroy() });
await box.spawn(["sleep", "3141"]);
process.stdout.write(`${box.id}\n`);
setInterval(() => {}, 60_000);
