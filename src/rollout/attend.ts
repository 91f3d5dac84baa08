import type { Conversation } from "../agent/agent.ts";
import { Attendant, type AttendantOptions, type AttendantPolicy } from "../conversation/attendant.ts";
import { isTelling } from "../conversation/telling.ts";
import { messageOf } from "../errors.ts";
import type { Command } from "../model/command.ts";
import { toTimerMs } from "../model/duration.ts";
import type { EventBody } from "../model/event.ts";
import type { AgentOptions } from "../model/request.ts";
import type { Rollout } from "../model/rollout.ts";
import { shorten } from "../model/shorten.ts";
import { coalesce } from "./coalesce.ts";
import type { Deps } from "./deps.ts";
import { EventAllowance } from "./event-allowance.ts";
import { passOnText } from "./pass-on-text.ts";
import type { RolloutRecord } from "./record.ts";
import type { Transcript } from "./transcript.ts";

/** Beside a live agent, for as long as it is held: what it does is told, what it asks is decided, what people say reaches it. */
export function attend(
	rollout: Rollout,
	conversation: Conversation,
	transcript: Transcript,
	deps: Deps,
	record: RolloutRecord,
	options: AttendantOptions & { first?: Command | undefined } = {},
): { attendant: Attendant } & Disposable {
	const allowance = new EventAllowance(() => record.note("the agent says too much: no more of it is kept"));
	// What it asks and what people do is on the record, however much the agent says.
	const attendant = new Attendant(toPolicy(rollout.request.agent), (event) => record.emit(event), options);
	if (options.first !== undefined) void attendant.obey(options.first);
	using stack = new DisposableStack();
	stack.use(
		listen(conversation, record, transcript, (event) => {
			if (allowance.take(event)) record.emit(event);
		}),
	);
	stack.use(passOnText(rollout.id, conversation, deps.live));
	stack.use(attendant.attend(conversation));
	stack.use(takeCommands(rollout, deps, record, attendant));
	stack.use(transcript.follow(conversation));
	const owned = stack.move();
	return { attendant, [Symbol.dispose]: () => owned.dispose() };
}

function listen(
	conversation: Conversation,
	record: RolloutRecord,
	transcript: Transcript,
	tell: (event: EventBody) => void,
): Disposable {
	return conversation.subscribe((event) => {
		if (event.type === "session-start") record.session(event.sessionId);
		if (event.type === "note") tell({ type: "note", text: event.text });
		if (event.type !== "agent-event") return;
		const { name, properties } = event;
		if (!isTelling(name, properties)) return;
		transcript.stirred();
		tell({ type: "agent-event", name, properties: shorten(properties) as Record<string, unknown> });
	});
}

/** What people say to a rollout may come from any process; the store tells. */
function takeCommands(rollout: Rollout, deps: Deps, record: RolloutRecord, attendant: Attendant): Disposable {
	const { id, attempt } = rollout;
	let obeyed = 0;
	const take = coalesce(
		async () => {
			for (const { number, command } of await deps.store.commands(id, attempt)) {
				// Dropping what was obeyed before may have failed.
				if (number > obeyed) await attendant.obey(command);
				obeyed = number;
				await deps.store.dropCommands(id, attempt, number);
			}
		},
		(error) => record.note(`commands could not be read: ${messageOf(error)}`),
	);
	const watching = deps.store.watch(id, take);
	take();
	return watching;
}

function toPolicy(agent: AgentOptions): AttendantPolicy {
	return {
		permission: agent.permission,
		rules: agent.permissionRules,
		deadlineMs: toTimerMs(agent.permissionDeadlineS * 1000),
		otherwise: agent.permissionDefault,
	};
}
