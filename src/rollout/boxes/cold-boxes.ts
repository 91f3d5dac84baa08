import type { StoredRequest } from "../../model/request.ts";
import type { PlantedLogin } from "../login/planted.ts";
import type { RolloutRecord } from "../record.ts";
import {
	bootAgent,
	newKey,
	openBox,
	prepare,
	type ReadyBox,
	type ReadyBoxes,
	type ReadyDeps,
} from "./ready-box.ts";

/** Opens each box when it is asked for. */
export class ColdBoxes implements ReadyBoxes {
	readonly #deps: ReadyDeps;

	constructor(deps: ReadyDeps) {
		this.#deps = deps;
	}

	async open(
		request: StoredRequest,
		record: RolloutRecord,
		signal: AbortSignal,
		planted?: PlantedLogin | undefined,
	): Promise<ReadyBox> {
		const { task } = request;
		await using stack = new AsyncDisposableStack();
		record.phase("create");
		const box = stack.use(await openBox(this.#deps, request, signal));
		record.opened(box.id, box.backend, false, box.facts);
		record.phase("setup");
		const key = newKey();
		const boot = async () => {
			// Taken back after the agent has ended, and before the box is gone with it.
			await stack.use(planted)?.plant(box);
			return stack.use(await bootAgent(this.#deps, box, request, key, signal, planted?.model));
		};
		const give = async () => stack.use(await prepare(request, box, (event) => record.setUp(event), signal));
		// Setup runs before the agent exists; where there is none, nothing can tell whether both happen at once.
		const isInTurn = task.setup.length > 0 || planted !== undefined;
		const [given, agent] = isInTurn ? [await give(), await boot()] : await both(give(), boot());
		const owned = stack.move();
		return { box, agent, key, given, planted, [Symbol.asyncDispose]: () => owned.disposeAsync() };
	}
}

/** Both have ended when this does: what one still opens while the other fails would stay open. */
async function both<A, B>(first: Promise<A>, second: Promise<B>): Promise<[A, B]> {
	await Promise.allSettled([first, second]);
	return [await first, await second];
}
