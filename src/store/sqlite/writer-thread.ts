import { DatabaseSync } from "node:sqlite";
import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { isOutage, messageOf } from "../../errors.ts";
import { configure } from "./schema.ts";
import { Statements } from "./statements.ts";
import type { WriteAnswer, WriteOrder } from "./writer.ts";
import { SqliteWrites } from "./writes.ts";

/**
 * The thread that writes. Waiting for the disk and for other processes' locks happens here, so the main thread keeps
 * streaming; orders that arrive while one commit is under way share the next.
 */
const MOST_PER_COMMIT = 500;

const port = parentPort!;
const database = new DatabaseSync((workerData as { file: string }).file);
configure(database);
const statements = new Statements(database);
const writes = new SqliteWrites(statements);

port.on("message", (first: WriteOrder | "close") => {
	const orders: WriteOrder[] = [];
	let next: WriteOrder | "close" | undefined = first;
	while (next !== undefined && next !== "close") {
		orders.push(next);
		if (orders.length === MOST_PER_COMMIT) break;
		next = receiveMessageOnPort(port)?.message as WriteOrder | "close" | undefined;
	}
	if (orders.length > 0) port.postMessage(commit(orders));
	if (next === "close") {
		database.close();
		port.close();
	}
});

function commit(orders: WriteOrder[]): WriteAnswer[] {
	try {
		return statements.transact(() => orders.map(carryOut));
	} catch (error) {
		return orders.map(({ ticket }) => refusal(ticket, error));
	}
}

/** One failing order must not undo its neighbours. */
function carryOut(order: WriteOrder): WriteAnswer {
	database.exec("SAVEPOINT one");
	try {
		const method = writes[order.method] as (...values: unknown[]) => unknown;
		const value = method.apply(writes, order.values);
		database.exec("RELEASE one");
		return { ticket: order.ticket, value };
	} catch (error) {
		// A full disk undoes the whole transaction by itself: then everybody fails.
		if (!database.isTransaction) throw error;
		database.exec("ROLLBACK TO one; RELEASE one");
		return refusal(order.ticket, error);
	}
}

function refusal(ticket: number, error: unknown): WriteAnswer {
	return { ticket, error: messageOf(error), isOutage: isOutage(error) };
}
