import { useMemo, useState } from "react";
import type { ModelCall } from "../../../model/call.ts";
import type { Certificate, Sample } from "../../../model/sample.ts";
import { certificateWords, differenceAt, lengthsOf, surpriseOf, words } from "../../data/branch.ts";
import { showCall, showCount } from "../../data/figures.ts";
import { makeVisible } from "../../data/hostile.ts";
import { useLoaded } from "../../data/loaded.ts";
import { type Spelling, spellingOf, toTokens } from "../../data/tokens.ts";
import { BranchTree } from "../../parts/branch-tree.tsx";
import { Plot } from "../../parts/plot.tsx";
import { CopyButton, Problem } from "../../parts/say.tsx";
import { type Prompts, TokenText } from "../../parts/token-text.tsx";
import { usePlace } from "../../router.tsx";
import { server } from "../../server.ts";

/** Training data, branch by branch: what was sampled, how likely it was, where a prefix broke and why. */
export function TokensTab({ id, isDone }: { id: string; isDone: boolean }) {
	if (!isDone) return <p className="soft">Branches are cut when the rollout has ended.</p>;
	return <Branches id={id} />;
}

function Branches({ id }: { id: string }) {
	const { value, error, reload } = useLoaded(`tokens-${id}`, async () => {
		const [samples, calls, certificate] = await Promise.all([
			collect(server.samples(id, { untrainable: "include" })),
			collect(server.calls(id)),
			server.certificate(id),
		]);
		return {
			samples,
			calls: new Map(calls.map((call) => [call.index, call])),
			spelling: spellingOf(calls),
			certificate,
		};
	});
	const { query } = usePlace();
	const [picked, setChosen] = useState<number | null>(null);
	const call = chosenCall(query);
	const holder = value?.samples.findIndex((sample) => call !== null && sample.calls.includes(call)) ?? -1;
	const chosen = picked ?? Math.max(0, holder);
	if (value === null)
		return error === null ? (
			<p className="soft">Reading tokens …</p>
		) : (
			<Problem error={error} onRetry={reload} />
		);
	const sample = value.samples[Math.min(chosen, value.samples.length - 1)];
	return (
		<div className="stack">
			<CertificateCard certificate={value.certificate} />
			{value.samples.length > 1 && (
				<BranchTree samples={value.samples} chosen={sample?.index ?? 0} onChoose={setChosen} />
			)}
			{sample === undefined ? (
				<p className="soft">There are no tokens.</p>
			) : (
				<Branch key={sample.index} sample={sample} calls={value.calls} spelling={value.spelling} />
			)}
		</div>
	);
}

interface BranchProps {
	sample: Sample;
	calls: ReadonlyMap<number, ModelCall>;
	spelling: Spelling;
}

function Branch({ sample, calls, spelling }: BranchProps) {
	const { query } = usePlace();
	const [prompts, setPrompts] = useState<Prompts>("folded");
	const tokens = useMemo(
		() => toTokens(sample, calls, prompts === "tokens" ? spelling : null),
		[sample, calls, spelling, prompts],
	);
	const surprise = useMemo(() => surpriseOf(tokens), [tokens]);
	const lengths = useMemo(() => lengthsOf(sample, calls), [sample, calls]);
	const sampled = useMemo(() => sample.mask.reduce<number>((sum, bit) => sum + bit, 0), [sample]);
	return (
		<>
			<BreakNote sample={sample} calls={calls} spelling={spelling} />
			<div className="row">
				<span className="soft">
					{showCount(sample.ids.length)} tokens, {showCount(sampled)} sampled, {sample.calls.length}{" "}
					{sample.calls.length === 1 ? "call" : "calls"}
				</span>
				<CopyButton text={() => JSON.stringify(sample)} label="copy as JSON row" />
			</div>
			{prompts !== "folded" && <PromptNote prompts={prompts} sample={sample} spelling={spelling} />}
			<TokenText {...{ tokens, prompts }} call={chosenCall(query)} onPrompts={setPrompts} />
			<Plot title="Surprise along the branch" {...surprise} isTime={false} heightPx={130} />
			<Plot title="Tokens of each call" {...lengths} kind="bars" isTime={false} heightPx={130} />
		</>
	);
}

/** `?call=3`: the third, whose index is 2. */
function chosenCall(query: URLSearchParams): number | null {
	const number = Number.parseInt(query.get("call") ?? "", 10);
	return Number.isInteger(number) ? number - 1 : null;
}

/** What is known of a prompt's text, and what is not. */
function PromptNote({ prompts, sample, spelling }: { prompts: Prompts; sample: Sample; spelling: Spelling }) {
	const known = useMemo(() => {
		let [all, spelt] = [0, 0];
		sample.ids.forEach((id, at) => {
			if (sample.mask[at] === 1) return;
			all += 1;
			if (spelling.has(id)) spelt += 1;
		});
		return { all, spelt };
	}, [sample, spelling]);
	return (
		<p className="soft">
			{prompts === "messages"
				? "The engine tells a prompt's ids, not its text: these are the messages it was made from. What its template put around them is not known."
				: `Of ${showCount(known.all)} prompt tokens ${showCount(known.spelt)} have a known text, since the same ids were sampled in this rollout; the others are shown as ⟨id⟩.`}
		</p>
	);
}

function BreakNote({ sample, calls, spelling }: BranchProps) {
	const { startedBy } = sample;
	if (startedBy === null) return null;
	const { position, before, after } = differenceAt(startedBy, calls, spelling);
	const row = (label: string, tokens: typeof before) => (
		<tr>
			<th scope="row">{label}</th>
			{tokens.map((token, index) => {
				const isOther = token.id !== (label === "was" ? after : before)[index]?.id;
				return (
					<td
						key={token.position}
						className={isOther ? "differs" : undefined}
						title={token.id === null ? "" : `id ${token.id}`}
					>
						{makeVisible(token.text.replaceAll("\n", "↵"))}
					</td>
				);
			})}
		</tr>
	);
	return (
		<div className="break">
			<p>
				This branch broke off at position {startedBy.position}: <b>{words(startedBy.reason)}</b>, between call{" "}
				{showCall(startedBy.previousCall)} and call {showCall(startedBy.call)}.
			</p>
			<div className="scrolling" tabIndex={0} role="region" aria-label={`Tokens from position ${position}`}>
				<table>
					<tbody>
						{row("was", before)}
						{row("is", after)}
					</tbody>
				</table>
			</div>
		</div>
	);
}

function CertificateCard({ certificate }: { certificate: Certificate }) {
	return (
		<details className="card fold" open={!certificate.trainable}>
			<summary>
				{certificate.trainable ? <b className="good">Trainable</b> : <b className="bad">Not trainable</b>}
				<span className="soft"> · {certificateWords(certificate)[2]}</span>
			</summary>
			<ul className="words">
				{certificate.reasons.map((reason) => (
					<li key={reason} className="bad">
						{makeVisible(reason)}
					</li>
				))}
				{[...certificateWords(certificate), ...certificate.notes].map((sentence) => (
					<li key={sentence}>{makeVisible(sentence)}</li>
				))}
			</ul>
		</details>
	);
}

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
	const all: T[] = [];
	for await (const item of items) all.push(item);
	return all;
}
