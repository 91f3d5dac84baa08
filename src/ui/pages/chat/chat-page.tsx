import { type KeyboardEvent, useEffect, useMemo, useState } from "react";
import { canInterrupt, isWorking as goesOn, modelNow, whyNotModel } from "../../data/chat.ts";
import { useConversationFeed } from "../../data/feed.ts";
import { showBytes, showCount } from "../../data/figures.ts";
import { oneLine } from "../../data/hostile.ts";
import { useLoaded } from "../../data/loaded.ts";
import type { LogEvent } from "../../data/log-event.ts";
import { saveAs } from "../../data/save.ts";
import { type Entry, readTranscript, type ToolEntry } from "../../data/transcript.ts";
import { Acting, useAction } from "../../parts/asks.tsx";
import { useEscape } from "../../parts/keys.ts";
import { Problem } from "../../parts/say.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { ToolInput, Transcript } from "../../parts/transcript.tsx";
import { changeQuery, usePlace } from "../../router.tsx";
import { server } from "../../server.ts";
import { CallsTab } from "../rollout/calls-tab.tsx";
import { EventsTab } from "../rollout/events-tab.tsx";

/** Talk to a live agent: it streams, asks, is interrupted, and leaves files. */
export function ChatPage({ id }: { id: string }) {
	const loaded = useLoaded(`chat-${id}`, () => server.conversation(id), 3000);
	const [opening, setOpening] = useState(0);
	const { events, texts, error } = useConversationFeed(id, opening);
	const entries = useMemo(() => readTranscript("", events, texts), [events, texts]);
	const chat = loaded.value;
	const { reload } = loaded;
	const ends = events.filter((event) => event.type === "conversation-end").length;
	// biome-ignore lint/correctness/useExhaustiveDependencies: whatever closed it asks for another look
	useEffect(() => reload(), [ends, reload]);
	const answering = useMemo(
		() => ({
			permit: (requestId: string, body: Parameters<typeof server.permit>[2]) =>
				server.permit(id, requestId, body),
			reply: (requestId: string, body: Parameters<typeof server.reply>[2]) =>
				server.reply(id, requestId, body),
		}),
		[id],
	);
	if (chat === null)
		return loaded.error === null ? (
			<p className="soft">Reading …</p>
		) : (
			<Problem error={loaded.error} onRetry={reload} />
		);
	const isWorking = goesOn(events);
	return (
		<div className="stack">
			<Head
				{...{ chat, events }}
				onReopened={() => {
					setOpening(opening + 1);
					reload();
				}}
			/>
			<Problem error={error ?? loaded.error} />
			{chat.failure !== null && <div className="problem">{chat.failure.message}</div>}
			<div className="columns">
				<section aria-label="Transcript">
					<Transcript answering={answering} entries={entries} isLive={chat.status !== "closed"} />
					{isWorking && (
						<p className="soft">
							<span className="pulse" aria-hidden>
								◌
							</span>{" "}
							{chat.status === "queued" ? "waits for a worker …" : "works …"}
						</p>
					)}
					{chat.status !== "closed" && (
						<Acting>
							<Composer id={id} isWorking={isWorking} />
						</Acting>
					)}
				</section>
				<Inspector id={id} entries={entries} events={events} />
			</div>
		</div>
	);
}

interface HeadProps {
	chat: Awaited<ReturnType<typeof server.conversation>>;
	events: readonly LogEvent[];
	onReopened: () => void;
}

function Head({ chat, events, onReopened }: HeadProps) {
	const { error, isBusy, act } = useAction();
	const [model, setModel] = useState("");
	const now = modelNow(chat.endpoint, events);
	const whyNot = whyNotModel(chat.status, now, model);
	const isInterruptible = canInterrupt(chat.status, events);
	const interrupt = () => act(() => server.interruptConversation(chat.id, { by: "console" }));
	useEscape(isInterruptible ? interrupt : null);
	return (
		<>
			<header className="page-head">
				<h1 className="one-line">{oneLine(chat.labels.title ?? "Chat", 100)}</h1>
				<span>
					<span className={chat.status === "open" ? "good" : "soft"}>
						{chat.status === "open" ? "●" : "○"}
					</span>{" "}
					{chat.status}
					{chat.closed !== null && chat.closed !== "asked" && ` · ${chat.closed}`}
				</span>
				<Acting>
					<div className="actions">
						{isInterruptible && (
							<button type="button" disabled={isBusy} title="Esc" onClick={interrupt}>
								Interrupt
							</button>
						)}
						{chat.status === "closed" ? (
							<Reopen {...{ chat, isBusy, act, onReopened }} />
						) : (
							<button
								type="button"
								disabled={isBusy}
								onClick={() => act(() => server.closeConversation(chat.id))}
							>
								Close
							</button>
						)}
					</div>
				</Acting>
			</header>
			<Problem error={error} />
			<div className="strip">
				<div>
					<small>model</small>
					{oneLine(now)}
				</div>
				<div>
					<small>calls</small>
					{chat.calls}
				</div>
				<div>
					<small>tokens in + out</small>
					{showCount(chat.promptTokens)} + {showCount(chat.completionTokens)}
				</div>
				{chat.status === "open" && (
					<Acting>
						<form
							className="row"
							onSubmit={async (event) => {
								event.preventDefault();
								if (whyNot === null && (await act(() => server.setModel(chat.id, model.trim(), "console"))))
									setModel("");
							}}
						>
							<input
								aria-label="Another model"
								placeholder="as its endpoint calls it"
								value={model}
								onChange={(event) => setModel(event.target.value)}
							/>
							<button type="submit" disabled={isBusy || whyNot !== null} title={whyNot ?? ""}>
								Change model
							</button>
						</form>
					</Acting>
				)}
			</div>
		</>
	);
}

interface ReopenProps extends Omit<HeadProps, "events"> {
	isBusy: boolean;
	act: ReturnType<typeof useAction>["act"];
}

/** A key that it came with was erased when it was closed. */
function Reopen({ chat, isBusy, act, onReopened }: ReopenProps) {
	const [key, setKey] = useState("");
	const apiKey = key === "" ? {} : { apiKey: key };
	return (
		<form
			className="row"
			onSubmit={async (event) => {
				event.preventDefault();
				if (await act(() => server.reopenConversation(chat.id, { by: "console", ...apiKey }))) onReopened();
			}}
		>
			{chat.endpoint.type !== "policy" && chat.keptAgent === null && (
				<input
					type="password"
					autoComplete="off"
					aria-label="API key"
					placeholder="API key, if it came with one"
					value={key}
					onChange={(event) => setKey(event.target.value)}
				/>
			)}
			<button type="submit" className="main" disabled={isBusy}>
				Open again
			</button>
		</form>
	);
}

function Composer({ id, isWorking }: { id: string; isWorking: boolean }) {
	const [text, setText] = useState("");
	const { error, isBusy, act } = useAction();
	const send = async () => {
		if (text.trim() !== "" && (await act(() => server.say(id, text, { by: "console" })))) setText("");
	};
	const onKeyDown = (event: KeyboardEvent) => {
		if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
		event.preventDefault();
		void send();
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
					placeholder={isWorking ? "steer it while it works" : "say something"}
					rows={2}
					value={text}
					onChange={(event) => setText(event.target.value)}
					onKeyDown={onKeyDown}
				/>
				<button type="submit" className="main" disabled={isBusy || text.trim() === ""}>
					Send
				</button>
			</form>
		</>
	);
}

function Inspector({ id, entries, events }: { id: string; entries: Entry[]; events: readonly LogEvent[] }) {
	const { query } = usePlace();
	const tabs = [
		{ name: "changes", label: "Changes", body: () => <Changes entries={entries} /> },
		{ name: "files", label: "Files", body: () => <Deliverables id={id} events={events} /> },
		{ name: "calls", label: "Calls", body: () => <CallsTab events={events} /> },
		{ name: "events", label: "Events", body: () => <EventsTab events={events} /> },
	];
	return (
		<section className="inspector" aria-label="Inspector">
			<Tabs tabs={tabs} chosen={query.get("tab") ?? "changes"} onChoose={(tab) => changeQuery({ tab })} />
		</section>
	);
}

/** What the agent wrote and edited, the newest first. */
function Changes({ entries }: { entries: readonly Entry[] }) {
	const made = entries.filter(
		(entry): entry is ToolEntry =>
			entry.type === "tool" && ["write", "edit"].includes(entry.tool) && entry.status === "completed",
	);
	if (made.length === 0) return <p className="soft">It has not written or edited a file yet.</p>;
	return (
		<div className="stack">
			{made.toReversed().map((entry) => (
				<section key={entry.key} className="stack tight">
					<h2 className="mono">{oneLine(entry.title)}</h2>
					<ToolInput tool={entry.tool} input={entry.input} />
				</section>
			))}
		</div>
	);
}

function Deliverables({ id, events }: { id: string; events: readonly LogEvent[] }) {
	const announced = events.filter((event) => event.type === "deliverable").length;
	const { value, error } = useLoaded(`deliverables-${id}-${announced}`, () => server.deliverables(id));
	const files = value?.items ?? [];
	const { act, isBusy, error: actError } = useAction();
	if (value !== null && files.length === 0)
		return (
			<p className="soft">No declared file has appeared. A conversation names them as `deliverables`.</p>
		);
	return (
		<div className="stack tight">
			<Problem error={error ?? actError} />
			{files.map((file) => (
				<div key={file.path} className="row">
					<code>{oneLine(file.path)}</code> <span className="soft">{showBytes(file.sizeBytes)}</span>
					<button
						type="button"
						className="plain"
						disabled={isBusy}
						onClick={() =>
							act(async () => {
								const bytes = await server.deliverable(id, file.path);
								await saveAs(file.path.split("/").at(-1)!, new Response(bytes as BodyInit).body!);
							})
						}
					>
						save
					</button>
				</div>
			))}
		</div>
	);
}
