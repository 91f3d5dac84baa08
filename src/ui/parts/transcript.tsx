import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { showSeconds } from "../data/figures.ts";
import { makeVisible, oneLine, shorten } from "../data/hostile.ts";
import { Markdown } from "../data/markdown.tsx";
import type { Entry, ToolEntry } from "../data/transcript.ts";
import { unwrap } from "../data/unwrap.ts";
import { type Answering, PermissionCard, QuestionCard } from "./asks.tsx";
import { Output } from "./output.tsx";
import { Patch } from "./patch.tsx";

interface TranscriptProps {
	answering: Answering;
	entries: readonly Entry[];
	isLive: boolean;
	/** The entry to bring into view, by its key. */
	target?: string | null;
	/** Hears when the topmost entry that can be seen was said. */
	onSeen?: ((at: number) => void) | undefined;
}

/** Only what can be seen is in the page; while it is live it follows the end until the reader scrolls up. */
export function Transcript({ answering, entries, isLive, target, onSeen }: TranscriptProps) {
	const list = useRef<HTMLDivElement>(null);
	const [offset, setOffset] = useState(0);
	useLayoutEffect(() => setOffset(list.current?.offsetTop ?? 0), []);
	const rows = useWindowVirtualizer({
		count: entries.length,
		estimateSize: () => 44,
		overscan: 8,
		scrollMargin: offset,
		getItemKey: (index) => entries[index]?.key ?? index,
	});
	const seenAt = entries[rows.range?.startIndex ?? 0]?.at;
	useEffect(() => {
		if (seenAt !== undefined) onSeen?.(seenAt);
	}, [seenAt, onSeen]);
	const [isFollowing, follow] = useFollowing(isLive, entries);
	const next = entries.find((entry) => entry.type === "permission" && entry.reply === null)?.key;

	// biome-ignore lint/correctness/useExhaustiveDependencies: only a new target scrolls, not a new entry
	useEffect(() => {
		const index = entries.findIndex((entry) => entry.key === target);
		if (index >= 0) rows.scrollToIndex(index, { align: "center" });
	}, [target]);

	return (
		<div className="transcript" ref={list} data-testid="transcript">
			<div style={{ height: rows.getTotalSize(), position: "relative" }}>
				{rows.getVirtualItems().map((row) => {
					const entry = entries[row.index]!;
					return (
						<div
							key={row.key}
							data-index={row.index}
							ref={rows.measureElement}
							style={{
								position: "absolute",
								top: 0,
								left: 0,
								right: 0,
								transform: `translateY(${row.start - offset}px)`,
							}}
							className={entry.depth > 0 ? "entry inner" : "entry"}
						>
							<EntryView
								{...{ answering, entry }}
								isTarget={entry.key === target}
								isNext={entry.key === next}
							/>
						</div>
					);
				})}
			</div>
			{isLive && !isFollowing && (
				<div className="follow">
					<button type="button" onClick={follow}>
						↓ jump to now
					</button>
				</div>
			)}
		</div>
	);
}

function useFollowing(isLive: boolean, entries: readonly Entry[]): [boolean, () => void] {
	const [isFollowing, setFollowing] = useState(true);
	const toEnd = () => scrollTo({ top: document.documentElement.scrollHeight });
	useEffect(() => {
		const onScroll = () => {
			const { scrollHeight } = document.documentElement;
			setFollowing(scrollHeight - innerHeight - scrollY < 120);
		};
		addEventListener("scroll", onScroll, { passive: true });
		return () => removeEventListener("scroll", onScroll);
	}, []);
	// biome-ignore lint/correctness/useExhaustiveDependencies: every new entry moves the end
	useEffect(() => {
		if (isLive && isFollowing && scrollY > 0) toEnd();
	}, [entries, isLive]);
	return [
		isFollowing,
		() => {
			setFollowing(true);
			toEnd();
		},
	];
}

interface EntryViewProps {
	answering: Answering;
	entry: Entry;
	isTarget: boolean;
	isNext: boolean;
}

/** Who spoke, where the log has only the door. */
const SPEAKERS: Record<string, string> = { task: "instruction", http: "a person", console: "you" };

export function EntryView({ answering, entry, isTarget, isNext }: EntryViewProps) {
	switch (entry.type) {
		case "person":
			return (
				<div className="person">
					<small>{SPEAKERS[entry.by] ?? makeVisible(entry.by)}</small>
					{entry.by === "task" ? (
						<Markdown text={unwrap(entry.text)} />
					) : (
						makeVisible(shorten(entry.text).text)
					)}
				</div>
			);
		case "text":
			return <Markdown text={entry.text} />;
		case "reasoning":
			return (
				<details className="fold">
					<summary className="soft one-line">thought: {oneLine(entry.text, 140)}</summary>
					<Markdown text={entry.text} />
				</details>
			);
		case "note":
			return <p className="soft">· {makeVisible(entry.text)}</p>;
		case "permission":
			return <PermissionCard answering={answering} ask={entry} isNext={isNext} />;
		case "question":
			return <QuestionCard answering={answering} ask={entry} />;
		case "tool":
			return <ToolView entry={entry} isOpen={isTarget} />;
	}
}

const SIGNS = { pending: "·", running: "◌", completed: "✓", error: "✕" };

/** One line with a sign of success; open to what went in and came out. */
function ToolView({ entry, isOpen }: { entry: ToolEntry; isOpen: boolean }) {
	const { input, status, tool } = entry;
	const isBad = status === "error";
	return (
		<details className="tool" open={isOpen || isBad}>
			<summary>
				<span className={isBad ? "bad" : status === "completed" ? "good" : "pulse"}>{SIGNS[status]}</span>
				<b>{oneLine(tool, 40)}</b>
				<span className="mono one-line">{oneLine(entry.title)}</span>
				{entry.durationS !== null && <span className="soft number">{showSeconds(entry.durationS)}</span>}
			</summary>
			<div>
				<ToolInput tool={tool} input={input} />
				<Output text={entry.output} label="output" />
				{entry.error !== null && <Output text={entry.error} label="error" />}
			</div>
		</details>
	);
}

export function ToolInput({ tool, input }: { tool: string; input: Record<string, unknown> }) {
	const text = (name: string) => (typeof input[name] === "string" ? (input[name] as string) : null);
	if (tool === "bash" && text("command") !== null) return <Output text={text("command")!} label="command" />;
	if (tool === "write" && text("content") !== null)
		return <Output text={text("content")!} label={oneLine(text("filePath") ?? "file")} />;
	const [before, after] = [text("oldString"), text("newString")];
	if (tool === "edit" && before !== null && after !== null)
		return <Patch text={editPatch(text("filePath") ?? "file", before, after)} />;
	return <Output text={JSON.stringify(input, null, 2)} label="input" />;
}

function editPatch(path: string, before: string, after: string): string {
	const signed = (sign: string, text: string) => text.split("\n").map((line) => sign + line);
	return ["diff", `--- a/${path}`, `+++ b/${path}`, ...signed("-", before), ...signed("+", after)].join("\n");
}
