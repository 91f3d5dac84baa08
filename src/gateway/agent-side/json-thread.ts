import { parentPort, workerData } from "node:worker_threads";
import { type JsonLimits, parseMeasured } from "../../model/measured-json.ts";

parentPort!.on("message", (bytes: Uint8Array) =>
	parentPort!.postMessage(parseMeasured(bytes, workerData as JsonLimits)),
);
