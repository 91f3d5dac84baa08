import { type ReactNode, useRef, useState } from "react";
import { makeVisible } from "../data/hostile.ts";
import type { AskEntry, QuestionEntry } from "../data/transcript.ts";
import { useReadOnly } from "../server.ts";
import { useKeys } from "./keys.ts";
import { Problem } from "./say.tsx";

/** How the asks of a rollout, or of a conversation, are answered. */
export interface Answering {
	permit: (
		requestId: string,
		body: { reply: "once" | "always" | "reject"; message?: string; by: string },
	) => Promise<unknown>;
	reply: (requestId: string, body: { answers: string[][] | null; by: string }) => Promise<unknown>;
}

interface PermissionCardProps {
	answering: Answering;
	ask: AskEntry;
	/** The one that keys answer: the first that waits. */
	isNext: boolean;
}

const REPLIES: Record<string, string> = { reject: "✕ refused", unknown: "· no longer asked" };

/** Where the agent stands still until somebody says yes or no. */
export function PermissionCard({ answering, ask, isNext }: PermissionCardProps) {
	const [reason, setReason] = useState("");
	const why = useRef<HTMLInputElement>(null);
	const { error, isBusy, act } = useAction();
	const answer = (reply: "once" | "always" | "reject") =>
		act(() =>
			answering.permit(ask.requestId, {
				reply,
				by: "console",
				...(reply === "reject" ? { message: reason || "a person refused this" } : {}),
			}),
		);
	const isOpen = ask.reply === null && isNext;
	useKeys(
		isOpen ? { a: () => answer("once"), A: () => answer("always"), r: () => why.current?.focus() } : {},
	);
	if (ask.reply !== null)
		return (
			<div className="ask done">
				<span>
					{REPLIES[ask.reply] ?? "✓ allowed"} <b>{makeVisible(ask.permission)}</b>{" "}
					<code>{makeVisible(ask.patterns.join(" "))}</code>{" "}
					<span className="soft">by {makeVisible(ask.by ?? "")}</span>
				</span>
			</div>
		);
	return (
		<div className="ask" role="group" aria-label={`Permission: ${ask.permission}`}>
			<p>
				The agent asks for <b>{makeVisible(ask.permission)}</b>
			</p>
			<pre className="code">{makeVisible(ask.patterns.join("\n"))}</pre>
			<div className="row">
				<button type="button" className="main" disabled={isBusy} onClick={() => answer("once")}>
					Allow once
				</button>
				<button type="button" disabled={isBusy} onClick={() => answer("always")}>
					Always
				</button>
				<button type="button" className="danger" disabled={isBusy} onClick={() => answer("reject")}>
					Reject
				</button>
				<input
					ref={why}
					aria-label="Why it is rejected"
					onKeyDown={(event) => event.key === "Enter" && answer("reject")}
					placeholder="why not (the agent reads this)"
					value={reason}
					onChange={(event) => setReason(event.target.value)}
				/>
			</div>
			<Problem error={error} />
		</div>
	);
}

export function QuestionCard({ answering, ask }: { answering: Answering; ask: QuestionEntry }) {
	const [chosen, setChosen] = useState<string[][]>(() => ask.questions.map(() => []));
	const { error, isBusy, act } = useAction();
	const titles = ask.questions.map((each) => each.question).join(" ");
	if (!ask.isOpen)
		return (
			<div className="ask done">
				<span>
					? {makeVisible(titles)} <span className="soft">answered by {makeVisible(ask.by ?? "")}</span>
				</span>
			</div>
		);
	const toggle = (index: number, label: string, multiple: boolean) =>
		setChosen((before) =>
			before.map((labels, at) => {
				if (at !== index) return labels;
				if (!multiple) return [label];
				return labels.includes(label) ? labels.filter((each) => each !== label) : [...labels, label];
			}),
		);
	const answer = (answers: string[][] | null) =>
		act(() => answering.reply(ask.requestId, { answers, by: "console" }));
	return (
		<div className="ask" role="group" aria-label="Question">
			{ask.questions.map((question, index) => (
				<fieldset key={question.question}>
					<legend>{makeVisible(question.question)}</legend>
					{question.options.map((option) => (
						<label key={option.label} className="row">
							<input
								type={question.multiple ? "checkbox" : "radio"}
								name={`${ask.requestId}-${index}`}
								checked={chosen[index]?.includes(option.label) ?? false}
								onChange={() => toggle(index, option.label, question.multiple)}
							/>
							{makeVisible(option.label)} <span className="soft">{makeVisible(option.description)}</span>
						</label>
					))}
				</fieldset>
			))}
			<div className="row">
				<button
					type="button"
					className="main"
					disabled={isBusy || chosen.some((labels) => labels.length === 0)}
					onClick={() => answer(chosen)}
				>
					Answer
				</button>
				<button type="button" disabled={isBusy} onClick={() => answer(null)}>
					Decline
				</button>
			</div>
			<Problem error={error} />
		</div>
	);
}

/** What would change something; not where one can only look. */
export function Acting({ children }: { children: ReactNode }) {
	return useReadOnly() ? null : children;
}

/** One thing at a time; what went wrong is shown until the next try. */
export function useAction() {
	const [state, setState] = useState<{ error: unknown; isBusy: boolean }>({ error: null, isBusy: false });
	const act = async (action: () => Promise<unknown>): Promise<boolean> => {
		setState({ error: null, isBusy: true });
		try {
			await action();
			setState({ error: null, isBusy: false });
			return true;
		} catch (error) {
			setState({ error, isBusy: false });
			return false;
		}
	};
	return { ...state, act };
}
