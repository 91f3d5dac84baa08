import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { modelOf } from "../../../model/endpoint.ts";
import type { Rollout } from "../../../model/rollout.ts";
import { useRolloutFeed } from "../../data/feed.ts";
import { showCall, showCount, showSeconds } from "../../data/figures.ts";
import { oneLine } from "../../data/hostile.ts";
import { useLoaded } from "../../data/loaded.ts";
import { neighbourOf } from "../../data/neighbours.ts";
import { type Span, type Story, tellStory } from "../../data/story.ts";
import { readTranscript } from "../../data/transcript.ts";
import { Acting, useAction } from "../../parts/asks.tsx";
import { Axis, type AxisMark } from "../../parts/axis.tsx";
import { Commands, Running } from "../../parts/commands.tsx";
import { useKeys } from "../../parts/keys.ts";
import { Outcome } from "../../parts/outcome.tsx";
import { Reward } from "../../parts/reward.tsx";
import { Problem, useNow } from "../../parts/say.tsx";
import { type Tab, Tabs } from "../../parts/tabs.tsx";
import { Transcript } from "../../parts/transcript.tsx";
import { changeQuery, Link, navigate, usePlace } from "../../router.tsx";
import { answeringOf, server } from "../../server.ts";
import { CallsTab } from "./calls-tab.tsx";
import { EventsTab } from "./events-tab.tsx";
import { FactsTab } from "./facts-tab.tsx";
import { FilesTab } from "./files-tab.tsx";
import { LogsTab } from "./logs-tab.tsx";
import { TokensTab } from "./tokens-tab.tsx";

/** What the agent did, why it got that reward, and whether it can be trained on. */
export function RolloutPage({ id }: { id: string }) {
	const feed = useRolloutFeed(id);
	const loaded = useLoaded(`rollout-${id}`, () => server.get(id));
	const story = useMemo(() => tellStory(feed.events), [feed.events]);
	const { reload } = loaded;
	// What the events do not carry (cost, box, outcome) is fetched again when a phase begins and at the end.
	// biome-ignore lint/correctness/useExhaustiveDependencies: the phase is what asks for another look
	useEffect(() => reload(), [story.phase, reload]);

	const rollout = loaded.value;
	if (rollout === null)
		return loaded.error === null ? (
			<p className="soft">Reading …</p>
		) : (
			<Problem error={loaded.error} onRetry={reload} />
		);
	return (
		<div className="stack">
			<Head rollout={rollout} story={story} />
			<Problem error={feed.error} />
			{rollout.failure !== null && (
				<div className="problem">
					<b>
						{rollout.failure.boundary}: {rollout.failure.code}
					</b>{" "}
					{rollout.failure.message}
				</div>
			)}
			<Body rollout={rollout} story={story} feed={feed} />
		</div>
	);
}

function Body({
	rollout,
	story,
	feed,
}: {
	rollout: Rollout;
	story: Story;
	feed: ReturnType<typeof useRolloutFeed>;
}) {
	const { events, texts } = feed;
	const { query } = usePlace();
	const [target, setTarget] = useState<string | null>(null);
	const answering = useMemo(() => answeringOf(rollout.id), [rollout.id]);
	const isDone = story.phase === "done" || rollout.status === "done";
	const entries = useMemo(
		() => readTranscript(rollout.request.task.instruction, events, texts),
		[rollout.request.task.instruction, events, texts],
	);
	const mark = useRef<AxisMark>(null);
	const onSeen = useCallback((at: number) => mark.current?.moveTo(at), []);
	const choose = (tab: string) => changeQuery({ tab });
	const onSpan = (span: Span) => {
		// What came of it: the first thing in the transcript that is not older.
		const came = entries.find((entry) => entry.key !== "instruction" && entry.at >= span.startAt);
		setTarget(span.entry ?? came?.key ?? null);
		if (span.call !== undefined) changeQuery({ tab: "calls", call: showCall(span.call) });
		else if (span.lane === "command" || span.kind === "verify" || span.kind === "setup") choose("verify");
	};
	const go = (step: -1 | 1) => {
		const next = neighbourOf(rollout.id, step);
		if (next !== null) navigate(`/rollouts/${next}${location.search}`);
	};
	useKeys({
		t: () => choose("tokens"),
		d: () => choose("files"),
		v: () => choose("verify"),
		"[": () => go(-1),
		"]": () => go(1),
	});
	const tabs: Tab[] = [
		{ name: "verify", label: "Verify", body: () => <VerifyTab story={story} rollout={rollout} /> },
		{ name: "files", label: "Files", body: () => <FilesTab id={rollout.id} isDone={isDone} /> },
		{ name: "calls", label: "Calls", body: () => <CallsTab events={events} /> },
		{ name: "tokens", label: "Tokens", body: () => <TokensTab id={rollout.id} isDone={isDone} /> },
		{ name: "logs", label: "Logs", body: () => <LogsTab id={rollout.id} isDone={isDone} /> },
		{ name: "events", label: "Events", body: () => <EventsTab events={events} /> },
		{ name: "facts", label: "Facts", body: () => <FactsTab rollout={rollout} story={story} /> },
	];
	return (
		<>
			<Axis story={story} onChoose={onSpan} mark={mark} />
			<div className={query.has("tab") ? "columns asked" : "columns"}>
				<section aria-label="Transcript">
					<Transcript {...{ answering, entries, target, onSeen }} isLive={!isDone} />
					{!isDone && (
						<Acting>
							<Composer id={rollout.id} />
						</Acting>
					)}
				</section>
				<section className="inspector" aria-label="Inspector">
					<Tabs tabs={tabs} chosen={query.get("tab") ?? "verify"} onChoose={choose} />
				</section>
			</div>
		</>
	);
}

function Head({ rollout, story }: { rollout: Rollout; story: Story }) {
	const now = useNow(rollout.status === "done" ? 60_000 : 500);
	const { error, isBusy, act } = useAction();
	const endAt = rollout.finishedAt ?? now;
	const reward = rollout.reward ?? story.reward;
	return (
		<>
			<header className="page-head">
				<Reward reward={reward} large />
				<h1 className="one-line">{oneLine(rollout.taskId)}</h1>
				<Outcome rollout={{ ...rollout, phase: story.phase === "queued" ? rollout.phase : story.phase }} />
				<div className="actions">
					{rollout.groupId !== null && (
						<Link className="button" to={`/groups/${rollout.groupId}`}>
							Group
						</Link>
					)}
					<Acting>
						<Link className="button" to={`/launch?from=${rollout.id}`}>
							Run again
						</Link>
						{rollout.status !== "done" && (
							<button
								type="button"
								className="danger"
								disabled={isBusy}
								onClick={() => act(() => server.abort(rollout.id))}
							>
								Abort
							</button>
						)}
					</Acting>
				</div>
			</header>
			<Problem error={error} />
			<div className="strip">
				<div>
					<small>model</small>
					{oneLine(modelOf(rollout.request.endpoint))}
				</div>
				<div>
					<small>time</small>
					{rollout.startedAt === null ? "waiting" : showSeconds((endAt - rollout.startedAt) / 1000)}
				</div>
				<div>
					<small>calls</small>
					{Math.max(rollout.calls, story.calls)}
				</div>
				<div>
					<small>tokens in + out</small>
					{showCount(rollout.promptTokens)} + {showCount(rollout.completionTokens)}
				</div>
				<div>
					<small>trainable</small>
					{rollout.status === "done" ? <Trainable id={rollout.id} /> : "–"}
				</div>
			</div>
			{story.failedAttempts.map((failed) => (
				<p key={failed.attempt} className="soft">
					Attempt {failed.attempt} failed ({failed.code}): {failed.message}
				</p>
			))}
		</>
	);
}

/** As the certificate says; the first reason stands for all, the rest are under Tokens. */
function Trainable({ id }: { id: string }) {
	const { value, error } = useLoaded(`certificate-${id}`, () => server.certificate(id));
	if (value === null) return error === null ? "…" : "unknown";
	if (value.trainable) return <span className="good">yes</span>;
	return <span title={value.reasons.join("\n")}>no: {oneLine(value.reasons[0] ?? "", 80)}</span>;
}

function VerifyTab({ story, rollout }: { story: Story; rollout: Rollout }) {
	const { setup, verify, running } = story;
	return (
		<div className="stack">
			{running?.kind === "verify" && <Running command={running} />}
			{verify.length === 0 && running?.kind !== "verify" ? (
				<p className="soft">
					{rollout.status === "done"
						? "Nothing was verified."
						: "Verification begins when the agent has ended."}
				</p>
			) : (
				<Commands results={verify} />
			)}
			{(setup.length > 0 || running?.kind === "setup") && (
				<>
					<h2>Setup</h2>
					{running?.kind === "setup" && <Running command={running} />}
					<Commands results={setup} />
				</>
			)}
		</div>
	);
}

/** Say something more to a working agent; it goes on the record. */
function Composer({ id }: { id: string }) {
	const [text, setText] = useState("");
	const { error, isBusy, act } = useAction();
	const send = async () => {
		if (text.trim() !== "" && (await act(() => server.send(id, text, "console")))) setText("");
	};
	return (
		<>
			<Problem error={error} />
			<form
				className="composer"
				onSubmit={(event) => {
					event.preventDefault();
					void send();
				}}
			>
				<textarea
					aria-label="Say something to the agent"
					placeholder="say something to the agent"
					rows={1}
					value={text}
					onChange={(event) => setText(event.target.value)}
				/>
				<button type="submit" disabled={isBusy || text.trim() === ""}>
					Send
				</button>
			</form>
		</>
	);
}
