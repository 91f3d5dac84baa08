import { ServeKeeper } from "../../../src/agent/keeper/keeper.ts";

/** Keeps a server until it is told to end, or is killed: a keeper that a test can do that to. */
const [home = "", binary = "", password = ""] = process.argv.slice(2);
const provider = { baseUrl: "http://127.0.0.1:1/v1", apiKey: "not-used-0123456789", models: ["one"] };
const keeper = new ServeKeeper({ home, binary, password, provider });
process.on("SIGTERM", () => void keeper.stop().then(() => process.exit(0)));
// A start that is stopped fails; whoever stopped it ends this process.
keeper.ensureRunning().catch(() => {});
process.stdout.write("starting\n");
setInterval(() => {}, 60_000);
