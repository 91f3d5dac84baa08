import type { Writable } from "node:stream";
import type { AgentMessage } from "../agent/agent.ts";
import type { Config } from "../config.ts";
import type { ExportFormat, ExportOptions, ExportReport, Selection } from "../export/export.ts";
import type { MemberFigures } from "../export/group-figures.ts";
import type { InstalledAgent, InstallOptions, VisitOptions } from "../host/visit.ts";
import type { Read } from "../live/reading.ts";
import type { BlobName } from "../model/blob.ts";
import type { ModelCall } from "../model/call.ts";
import type { Command } from "../model/command.ts";
import type {
	ConversationEvent,
	ConversationRequest,
	ConversationRow,
	ConversationState,
	Deliverable,
} from "../model/conversation.ts";
import type { Credential, LoginTerms } from "../model/credential.ts";
import type { DialectName, EndpointSpec } from "../model/endpoint.ts";
import type { RolloutEvent } from "../model/event.ts";
import type { Host, HostCheck } from "../model/host.ts";
import type { KeptAgent, KeptBudget } from "../model/kept-agent.ts";
import type { Have } from "../model/live-text.ts";
import type { RolloutRequest } from "../model/request.ts";
import type { RolloutResult } from "../model/result.ts";
import type { Batch, Group, Rollout, RolloutOrder, RolloutRow } from "../model/rollout.ts";
import type { Certificate, InterventionHandling, Sample, TokenSums } from "../model/sample.ts";
import type { Statistics } from "../model/statistics.ts";
import type { Task } from "../model/task.ts";
import type { Worker, WorkerInfo } from "../queue/queue.ts";
import type { Availability } from "../sandbox/sandbox.ts";
import type { AbortTarget, GroupSummary, Page, RolloutFilter, StatisticsOptions } from "../store/store.ts";

/**
 * The verbs. Every door (command line, HTTP, MCP, OpenEnv) translates, calls one of these, and translates back; there
 * is nothing else to call. Bad input throws UsageError; an unknown id gives null, or nothing.
 */
export interface Paddock
	extends Submitting,
		Reading,
		Tracing,
		Conversing,
		Steering,
		Keeping,
		Placing,
		AgentKeeping,
		Machinery,
		AsyncDisposable {
	readonly config: Config;
}

export interface Submitting {
	/**
	 * Checked, admitted, stored and queued when it resolves; refused with `queue_full` when too many wait. n > 1, or
	 * `group: true`, makes a group.
	 */
	submit(
		request: RolloutRequest,
		options?: { n?: number | undefined; group?: boolean | undefined; idempotencyKey?: string | undefined },
	): Promise<{ rollouts: RolloutRow[]; group: Group | null }>;
	/** Tasks × endpoints × n, already multiplied out into requests; each request becomes one group of n. */
	submitBatch(
		requests: RolloutRequest[],
		options: {
			n: number;
			labels?: Record<string, string> | undefined;
			idempotencyKey?: string | undefined;
		},
	): Promise<{ batch: Batch; rollouts: RolloutRow[] }>;
}

/** What is known of rollouts, groups and batches. */
export interface Reading {
	/** With its task, which may weigh megabytes; whoever needs neither task nor summary asks for the row. */
	rollout(id: string): Promise<Rollout | null>;
	row(id: string): Promise<RolloutRow | null>;
	list(
		filter: RolloutFilter,
		page: PageOptions & { order?: RolloutOrder | undefined },
	): Promise<Page<RolloutRow>>;
	/** How those that match and have ended went, by when they ended. */
	statistics(filter: RolloutFilter, options: StatisticsOptions): Promise<Statistics>;
	group(id: string): Promise<GroupSummary | null>;
	/** How its members went, read from their calls. */
	groupFigures(id: string): Promise<MemberFigures[] | null>;
	listGroups(options: PageOptions & { batchId?: string | undefined }): Promise<Page<Group>>;
	batch(id: string): Promise<BatchSummary | null>;
	listBatches(options: PageOptions): Promise<Page<Batch>>;
	status(): Promise<Status>;
	/** Unfinished rollouts that no living process has: those of a program that was killed. */
	leftBehind(): Promise<string[]>;
}

/** What one rollout left, or leaves just now. */
/** What becomes of calls after a person steered; kept, unless said. */
export interface Steered {
	interventions?: InterventionHandling | undefined;
}

export interface Tracing {
	/** Every event after `after`, live, until the end event or the signal. */
	follow(
		id: string,
		options?: { after?: number | undefined; signal?: AbortSignal | undefined },
	): AsyncIterable<RolloutEvent>;
	/** The same with the texts as they are being written in between; who comes back says how much of them it has. */
	followLive(
		id: string,
		options?: { after?: number | undefined; have?: Have | undefined; signal?: AbortSignal | undefined },
	): AsyncIterable<Read<RolloutEvent>>;
	/** What there is after `after`; when that is nothing yet, waits for it up to `waitMs`. */
	events(id: string, options: EventOptions): Promise<EventPage | null>;
	/** The rollout once it is done, or as it is when time is up. */
	wait(id: string, options: { timeoutMs: number; signal?: AbortSignal | undefined }): Promise<Rollout | null>;
	/** The wire result; for an unfinished rollout the same shape with `error` saying so. */
	result(id: string): Promise<RolloutResult | null>;
	messages(id: string): Promise<Transcript | null>;
	calls(id: string): AsyncIterable<ModelCall>;
	/** What can be proven of the tokens. Read from the calls each time: whoever asks sees what today's rules say. */
	certificate(id: string, options?: Steered): Promise<Certificate | null>;
	/** The certificates of all finished rollouts of a group or batch in one. Reads every trace. */
	tokenSums(of: { groupId: string } | { batchId: string }): Promise<TokenSums>;
	/** One after the other, in memory bounded by the open branches; the certificate says whether to train on them. */
	samples(id: string, options?: Steered): AsyncIterable<RolloutSample>;
	/** The names of the stored results: transcript.json, diff.patch, … */
	blobs(id: string): Promise<BlobName[]>;
	blob(id: string, name: BlobName): Promise<Buffer | null>;
	/** Writes what was selected and is done, in memory that does not depend on how much that is. */
	export(
		selection: Selection,
		format: ExportFormat,
		destination: Writable | string,
		options?: ExportOptions,
	): Promise<ExportReport>;
}

/** Live agents, stored and queued like rollouts. An unknown id gives null. */
export interface Conversing {
	/** Checked, admitted, stored and queued when it resolves; a worker opens it when it has room. */
	converse(
		request: ConversationRequest,
		options?: {
			idempotencyKey?: string | undefined;
			by?: string | undefined;
			/** Whoever asks is the operator, on this machine: any folder may be named. No door to elsewhere says so. */
			isOwner?: boolean | undefined;
		},
	): Promise<ConversationRow>;
	conversation(id: string): Promise<ConversationRow | null>;
	conversations(
		filter: { status?: ConversationState | undefined; label?: { name: string; value: string } | undefined },
		page: PageOptions,
	): Promise<Page<ConversationRow>>;
	/** Every event after `after`, live, until it is closed or the signal fires. */
	followConversation(
		id: string,
		options?: { after?: number | undefined; signal?: AbortSignal | undefined },
	): AsyncIterable<ConversationEvent>;
	/** The same with the texts as they are being written in between; who comes back says how much of them it has. */
	converseLive(
		id: string,
		options?: { after?: number | undefined; have?: Have | undefined; signal?: AbortSignal | undefined },
	): AsyncIterable<Read<ConversationEvent>>;
	conversationEvents(id: string, options: EventOptions): Promise<ConversationEventPage | null>;
	conversationMessages(id: string): Promise<Transcript | null>;
	/** The declared files that have appeared. */
	deliverables(id: string): Promise<Deliverable[] | null>;
	/** One of them, as it was kept last. */
	deliverable(id: string, path: string): Promise<Buffer | null>;
	/** The asks that wait for somebody, oldest first. */
	pendingAsks(id: string): Promise<ConversationEvent[] | null>;
	/** Heard once, however often it is sent under one `messageId`; refused with `conversation_closed`. */
	sendMessage(
		id: string,
		message: { text: string; by?: string | undefined; messageId?: string | undefined },
	): Promise<{ messageId: string } | null>;
	/** Closes it soon; harmless to repeat. */
	closeConversation(id: string): Promise<ConversationRow | null>;
	/** Queued again, to go on with its history; refused with `conversation_open` unless it is closed. */
	reopenConversation(
		id: string,
		options?: { by?: string | undefined; apiKey?: string | undefined },
	): Promise<ConversationRow | null>;
}

/** A say in what runs. */
export interface Steering {
	/** The unfinished rollouts that were told to stop. */
	abort(target: AbortTarget): Promise<string[]>;
	/** To a rollout or a conversation; false when it is unknown, refused with `rollout_ended` or `conversation_closed` when it is over. */
	command(id: string, command: Command): Promise<boolean>;
}

/** Stored credentials. No verb hands out a secret. */
export interface Keeping {
	credentials(): Promise<Credential[]>;
	credential(label: string): Promise<Credential | null>;
	/** An API key, usable at once as the endpoint `cred:<label>` on every surface. */
	addApiKey(key: NewEndpoint & { apiKey: string; capacity?: number | undefined }): Promise<Credential>;
	/** A login whose tokens rotate: the gateway carries it, and one rollout uses it at a time. */
	addLogin(login: NewEndpoint & NewLogin): Promise<Credential>;
	/** What an agent's home holds, stored: its API key, or its login. Refused with a reason when it could not be used. */
	capture(home: string, options: CaptureRequest): Promise<Credential>;
	/** Asks the provider whether it is good, and refreshes its tokens for that if need be. Null when there is none. */
	verifyCredential(label: string): Promise<Credential | null>;
	/**
	 * Ends a quarantine without asking the provider: what is stored may be used again, or (`newest`) what was put aside last takes its
	 * place. Null when there is none; refused while it is in use.
	 */
	freeCredential(label: string, options: { newest: boolean }): Promise<Credential | null>;
	/** False when there is none; refused while it is in use, unless forced. */
	removeCredential(label: string, options: { force: boolean }): Promise<boolean>;
	/** Forgets every dead one, or all of a pool; those in use stay, unless forced. */
	purgeCredentials(options: {
		pool?: string | undefined;
		force: boolean;
	}): Promise<{ removed: string[]; inUse: string[] }>;
	/** Puts a new master key in the old one's place. */
	rotateKey(): Promise<void>;
}

export interface NewLogin {
	auth: { refresh: string; access: string; expires: number };
	terms: LoginTerms;
}

export interface CaptureRequest extends Omit<NewEndpoint, "baseUrl" | "model"> {
	/** `provider/model`; what the home's settings say, unless given. */
	model?: string | undefined;
	/** Where the provider's models are; what the home's settings say, unless given. */
	baseUrl?: string | undefined;
	/** For a login that rotates: where its tokens are refreshed. */
	tokenUrl?: string | undefined;
	clientId?: string | undefined;
	plugins?: boolean | undefined;
	/** For a login that only the agent can speak for: all that its box may reach. */
	hosts?: readonly string[] | undefined;
}

/** Where a credential is good. */
export interface NewEndpoint {
	label: string;
	baseUrl: string;
	model: string;
	dialect?: DialectName | undefined;
	/** Its pool, for rollouts that take any one of it. */
	pool?: string | undefined;
}

/** Other machines that boxes can be placed on. */
export interface Placing {
	hosts(): Promise<Host[]>;
	addHost(host: Omit<Host, "agent">): Promise<void>;
	removeHost(name: string): Promise<void>;
	/** What is wrong there is an answer, not an error. */
	checkHost(name: string, options?: VisitOptions): Promise<HostCheck>;
	/** Brings the agent there, and places boxes on it from then on. */
	installHost(name: string, options?: InstallOptions): Promise<InstalledAgent>;
}

/** Agents that are kept on this machine, outside any box, each with a name. No verb but `agentAccess` hands out a secret. */
export interface AgentKeeping {
	agents(): Promise<KeptAgent[]>;
	agent(name: string): Promise<KeptAgent | null>;
	addAgent(agent: {
		name: string;
		endpoint: EndpointSpec;
		models: string[];
		/** `gateway` unless said otherwise: with a key of its own, captured and counted. */
		via?: "gateway" | "direct" | undefined;
		budget?: KeptBudget | undefined;
		permission?: "allow" | "deny" | "ask" | undefined;
		/** Absolute; below Paddock's own home unless given. */
		home?: string | undefined;
		/** Absolute; found when it starts, unless given. */
		binary?: string | undefined;
		/** A machine that was given a name; this one unless given. */
		host?: string | undefined;
	}): Promise<KeptAgent>;
	/** A budget counts at once, a revoked key ends what runs; all else waits for the next start. */
	changeAgent(
		name: string,
		change: {
			models?: string[] | undefined;
			budget?: KeptBudget | undefined;
			permission?: "allow" | "deny" | "ask" | undefined;
			key?: "revoked" | "renewed" | undefined;
		},
	): Promise<KeptAgent | null>;
	/** Starts it in this process, which keeps it until it ends or the agent is stopped, from wherever; `ended` says why. */
	startAgent(name: string): Promise<{ baseUrl: string; ended: Promise<string> }>;
	/** Wherever it runs. */
	stopAgent(name: string): Promise<KeptAgent | null>;
	/** Stops it, and forgets it with its key. False when there is none. */
	removeAgent(name: string): Promise<boolean>;
	/** The end of its server's log. */
	agentLog(name: string): Promise<string | null>;
	/** Starts again what a process of this machine kept that died. */
	resumeAgents(): Promise<void>;
	/** What its server is reached with; for its owner, on this machine. */
	agentAccess(name: string): Promise<{ baseUrl: string; password: string } | null>;
}

/** Who runs agents, and with what. */
export interface Machinery {
	/** Starts taking work on this machine. */
	work(options?: {
		/** Rollouts at a time. */
		capacity?: number | undefined;
		/** Conversations at a time, beside them. */
		conversations?: number | undefined;
	}): Promise<Worker>;
	workers(): Promise<WorkerInfo[]>;
	/** A trainer's word on which weights an endpoint serves from now on, for the rollouts that this process runs. */
	setWeights(endpoint: string, version: string): void;
	/** What the catalog knows, never a key. */
	endpoints(): {
		name: string;
		configured: boolean;
		baseUrl: string | null;
		model: string | null;
		note: string;
	}[];
	/** The tasks that Paddock brings along. */
	examples(): Promise<Task[]>;
	sandboxes(): Promise<Record<string, Availability>>;
}

export interface PageOptions {
	cursor?: string | undefined;
	limit: number;
}

export interface EventOptions {
	after: number;
	limit: number;
	waitMs?: number | undefined;
	signal?: AbortSignal | undefined;
}

export interface EventPage {
	items: RolloutEvent[];
	/** Hand it back as `after`. */
	next: number;
	/** The end event is among these or before them. */
	done: boolean;
}

export interface ConversationEventPage extends Omit<EventPage, "items"> {
	items: ConversationEvent[];
}

export interface Transcript {
	sessionId: string | null;
	messages: AgentMessage[];
	/** Why there is nothing yet. */
	note: string | null;
}

/** A sample on its own, ready to be trained on. */
export interface RolloutSample extends Sample {
	rolloutId: string;
	taskId: string;
	groupId: string | null;
	reward: number | null;
}

export interface BatchSummary extends Batch {
	done: number;
	running: number;
	queued: number;
	/** Finished rollouts by outcome. */
	outcomes: Record<string, number>;
	rewardMean: number | null;
}

export interface Status {
	rollouts: { queued: number; running: number; done: number };
	conversations: Record<ConversationState, number>;
	/** How many wait for a worker, and how many may. */
	queueDepth: number;
	queueLimit: number;
}
