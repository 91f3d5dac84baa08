import { useMemo, useState } from "react";
import type { ModelCall } from "../../../model/call.ts";
import type { Certificate, Sample } from "../../../model/sample.ts";
import { useLoaded } from "../../data/loaded.ts";
import { toTokens } from "../../data/tokens.ts";
import { Plot } from "../../parts/plot.tsx";
import { CopyButton, Problem } from "../../parts/say.tsx";
import { TokenText } from "../../parts/token-text.tsx";
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
		return { samples, calls: new Map(calls.map((call) => [call.index, call])), certificate };
	});
	const [chosen, setChosen] = useState(0);
	if (value === null)
		return error === null ? (
			<p className="soft">Reading tokens …</p>
		) : (
			<Problem error={error} onRetry={reload} />
		);
	const sample = value.samples[Math.min(chosen, value.samples.length - 1)];
	return (
		<div className="stack">
			<CertificateWords certificate={value.certificate} />
			{value.samples.length > 1 && (
				<div className="chips" role="group" aria-label="Branches">
					{value.samples.map((each) => (
						<button
							type="button"
							key={each.index}
							aria-pressed={each === sample}
							onClick={() => setChosen(each.index)}
							title={
								each.startedBy === null ? "the beginning of its session" : `broke: ${each.startedBy.reason}`
							}
						>
							{each.startedBy === null ? "" : "⑂ "}
							{each.purpose} {each.index} · {each.ids.length} tokens
						</button>
					))}
				</div>
			)}
			{sample === undefined ? (
				<p className="soft">There are no tokens.</p>
			) : (
				<Branch sample={sample} calls={value.calls} />
			)}
		</div>
	);
}

function Branch({ sample, calls }: { sample: Sample; calls: ReadonlyMap<number, ModelCall> }) {
	const tokens = useMemo(() => toTokens(sample, calls), [sample, calls]);
	const plot = useMemo(() => {
		const sampled = tokens.filter((token) => token.logprob !== null);
		return {
			x: sampled.map((token) => token.position),
			series: [{ label: "−logprob", values: sampled.map((token) => -token.logprob!) }],
		};
	}, [tokens]);
	const { startedBy } = sample;
	return (
		<>
			{startedBy !== null && (
				<p>
					This branch broke off at position {startedBy.position}:{" "}
					<b>{startedBy.reason.replaceAll("_", " ")}</b>, between call {startedBy.previousCall} and call{" "}
					{startedBy.call}.
				</p>
			)}
			<div className="row">
				<span className="soft">
					{sample.ids.length} tokens, {sample.mask.filter((bit) => bit === 1).length} sampled,{" "}
					{sample.calls.length} calls
				</span>
				<CopyButton text={JSON.stringify(sample)} label="copy as JSON row" />
			</div>
			<TokenText tokens={tokens} />
			<Plot title="Surprise along the branch" {...plot} isTime={false} heightPx={140} />
		</>
	);
}

function CertificateWords({ certificate }: { certificate: Certificate }) {
	return (
		<div className="card">
			<p>
				{certificate.trainable ? <b className="good">Trainable</b> : <b className="bad">Not trainable</b>}:{" "}
				{certificate.trainedTokens} sampled tokens in {certificate.continuity.samples}{" "}
				{certificate.continuity.samples === 1 ? "branch" : "branches"};{" "}
				{certificate.completeness.capturedTokens} captured, {certificate.completeness.billedTokens} billed.
			</p>
			<ul>
				{certificate.reasons.map((reason) => (
					<li key={reason}>{reason}</li>
				))}
				{certificate.notes.map((note) => (
					<li key={note} className="soft">
						{note}
					</li>
				))}
			</ul>
		</div>
	);
}

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
	const all: T[] = [];
	for await (const item of items) all.push(item);
	return all;
}
