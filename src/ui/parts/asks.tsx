import { type ReactNode, useState } from "react";
import { makeVisible } from "../data/hostile.ts";
import type { AskEntry, QuestionEntry } from "../data/transcript.ts";
import { server, useReadOnly } from "../server.ts";
import { Problem } from "./say.tsx";

/** Where the agent stands still until somebody says yes or no. */
export function PermissionCard({ rolloutId, ask }: { rolloutId: string; ask: AskEntry }) {
	const [reason, setReason] = useState("");
	const { error, isBusy, act } = useAction();
	if (ask.reply !== null)
		return (
			<div className="ask done">
				<span>
					{ask.reply === "reject" ? "✕ refused" : "✓ allowed"} <b>{makeVisible(ask.permission)}</b>{" "}
					<code>{makeVisible(ask.patterns.join(" "))}</code>{" "}
					<span className="soft">by {makeVisible(ask.by ?? "")}</span>
				</span>
			</div>
		);
	const answer = (reply: "once" | "always" | "reject") =>
		act(() =>
			server.answerPermission(rolloutId, ask.requestId, {
				reply,
				by: "console",
				...(reply === "reject" ? { message: reason || "a person refused this" } : {}),
			}),
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
					aria-label="Why it is rejected"
					placeholder="why not (the agent reads this)"
					value={reason}
					onChange={(event) => setReason(event.target.value)}
				/>
			</div>
			<Problem error={error} />
		</div>
	);
}

export function QuestionCard({ rolloutId, ask }: { rolloutId: string; ask: QuestionEntry }) {
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
		act(() => server.answerQuestion(rolloutId, ask.requestId, { answers, by: "console" }));
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
