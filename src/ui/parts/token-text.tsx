import { useVirtualizer } from "@tanstack/react-virtual";
import { type MouseEvent, useEffect, useMemo, useRef, useState } from "react";
import { showCall } from "../data/figures.ts";
import { makeVisible } from "../data/hostile.ts";
import { LEVELS, type Token, toLines } from "../data/tokens.ts";
import { useCharacters } from "./characters.ts";
import { Minimap } from "./minimap.tsx";

const LINE_PX = 20;

interface Hover {
	token: Token;
	left: number;
	top: number;
	width: number;
}

/** What is shown of prompts: how long they are, the messages they were made from, or token by token. */
export const PROMPTS = ["folded", "messages", "tokens"] as const;
export type Prompts = (typeof PROMPTS)[number];

interface TokenTextProps {
	tokens: readonly Token[];
	/** The call to bring into view. */
	call: number | null;
	prompts: Prompts;
	onPrompts: (prompts: Prompts) => void;
}

/**
 * A branch as text, coloured by how unlikely each token was. Lines, not tokens, are elements: the token under the
 * pointer is found by the character and drawn as one overlay.
 */
export function TokenText({ tokens, call, prompts, onPrompts }: TokenTextProps) {
	const [hover, setHover] = useState<Hover | null>(null);
	const [found, setFound] = useState("");
	const scroller = useRef<HTMLDivElement>(null);
	const characters = useCharacters(scroller);
	const lines = useMemo(
		() => toLines(tokens, prompts !== "folded", characters),
		[tokens, prompts, characters],
	);
	const rows = useVirtualizer({
		count: lines.length,
		getScrollElement: () => scroller.current,
		estimateSize: () => LINE_PX,
		overscan: 30,
	});

	// biome-ignore lint/correctness/useExhaustiveDependencies: only another call scrolls, and the first lines
	useEffect(() => {
		const line = call === null ? -1 : lines.findIndex((each) => each.call === call);
		if (line >= 0) rows.scrollToIndex(line, { align: "start" });
	}, [call, characters]);

	const onMove = (event: MouseEvent) => {
		const hit = hitAt(event.clientX, event.clientY);
		const line = hit === null ? undefined : lines[hit.line];
		const owner = hit === null || line === undefined ? undefined : line.owners[hit.column];
		const token = owner === undefined ? undefined : tokens[owner];
		const box = scroller.current?.getBoundingClientRect();
		if (hit === null || token === undefined || box === undefined) return setHover(null);
		setHover({
			token,
			left: hit.rect.left - box.left + scroller.current!.scrollLeft,
			top: hit.rect.top - box.top + scroller.current!.scrollTop,
			width: Math.max(6, hit.rect.width),
		});
	};
	const find = () => {
		const wanted = found.trim();
		const at = tokens.findIndex((token) => String(token.id) === wanted || token.text.includes(wanted));
		const line = lines.findIndex((each) => each.owners.includes(at));
		if (wanted !== "" && line >= 0) rows.scrollToIndex(line, { align: "center" });
	};

	return (
		<div className="stack">
			<Legend />
			<div className="row nowrap">
				<select
					aria-label="Prompts"
					className="small"
					value={prompts}
					onChange={(event) => onPrompts(event.target.value as Prompts)}
				>
					{PROMPTS.map((name) => (
						<option key={name} value={name}>
							prompts: {name}
						</option>
					))}
				</select>
				<input
					aria-label="Find a token by text or id"
					placeholder="find text or id"
					value={found}
					onChange={(event) => setFound(event.target.value)}
					onKeyDown={(event) => event.key === "Enter" && find()}
				/>
			</div>
			<HoverFacts token={hover?.token ?? null} />
			<div className="with-map">
				<div
					className="scrolling token-scroller"
					ref={scroller}
					onMouseMove={onMove}
					onMouseLeave={() => setHover(null)}
					role="region"
					aria-label="Tokens"
					tabIndex={0}
					data-testid="tokens"
				>
					<div className="tokens" style={{ height: rows.getTotalSize() }}>
						{rows.getVirtualItems().map((row) => {
							const line = lines[row.index]!;
							return (
								<div
									key={row.key}
									className="line"
									data-line={row.index}
									style={{ position: "absolute", top: 0, transform: `translateY(${row.start}px)` }}
								>
									{line.call !== null && <span className="call-mark">call {showCall(line.call)} </span>}
									{line.runs.map((run) => (
										<span key={run.token} className={`l${run.level}`} data-run>
											{run.text}
										</span>
									))}
								</div>
							);
						})}
					</div>
					{hover !== null && (
						<div
							className="hover-box"
							style={{
								position: "absolute",
								left: hover.left,
								top: hover.top,
								width: hover.width,
								height: 18,
							}}
						/>
					)}
				</div>
				<Minimap lines={lines} onChoose={(line) => rows.scrollToIndex(line, { align: "center" })} />
			</div>
		</div>
	);
}

/** Which character of which line is under the pointer. */
function hitAt(x: number, y: number): { line: number; column: number; rect: DOMRect } | null {
	const at = document.caretPositionFromPoint?.(x, y);
	const node = at?.offsetNode;
	const run = node?.parentElement?.closest("[data-run]");
	const line = run?.closest<HTMLElement>("[data-line]");
	if (at === null || at === undefined || node === undefined || !run || !line) return null;
	const offset = Math.min(at.offset, (node.textContent?.length ?? 1) - 1);
	let column = offset;
	for (let before = run.previousElementSibling; before; before = before.previousElementSibling)
		if (before.hasAttribute("data-run")) column += before.textContent?.length ?? 0;
	const range = document.createRange();
	range.setStart(node, Math.max(0, offset));
	range.setEnd(node, Math.max(0, offset) + 1);
	return { line: Number(line.dataset.line), column, rect: range.getBoundingClientRect() };
}

function HoverFacts({ token }: { token: Token | null }) {
	if (token === null)
		return <p className="soft token-facts">Point at a token: id, logprob, what else it could have been.</p>;
	if (token.logprob === null)
		return (
			<p className="soft token-facts">
				{token.id === null
					? `${token.count} tokens of the prompt from position ${token.position}`
					: `id ${token.id} · position ${token.position}`}
				; not sampled, mask 0
			</p>
		);
	return (
		<div className="token-facts">
			<p className="one-line">
				<code>{makeVisible(JSON.stringify(token.text))}</code> · id {token.id} · logprob{" "}
				{token.logprob.toFixed(3)} ({showPercent(token.logprob)}) · position {token.position} · call{" "}
				{showCall(token.call)}
			</p>
			{token.alternatives !== undefined && token.alternatives.length > 0 && (
				<ol className="alternatives">
					{token.alternatives.map((each, index) => (
						// biome-ignore lint/suspicious/noArrayIndexKey: two alternatives may have the same text
						<li key={index} className={each.token === token.text ? "taken" : undefined}>
							<i style={{ width: `${Math.exp(each.logprob) * 100}%` }} />
							<code>{makeVisible(JSON.stringify(each.token))}</code> {showPercent(each.logprob)}
						</li>
					))}
				</ol>
			)}
		</div>
	);
}

function showPercent(logprob: number): string {
	const percent = Math.exp(logprob) * 100;
	return `${percent.toFixed(percent < 1 ? 2 : 0)} %`;
}

function Legend() {
	return (
		<span className="legend tokens">
			{LEVELS.map((from, level) => (
				<span key={from}>
					<i className={`l${level}`} />
					{level === 0 ? "likely" : `below ${from}`}
				</span>
			))}
			<span>
				<i className="l5" />
				not sampled
			</span>
		</span>
	);
}
