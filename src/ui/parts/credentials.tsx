import { type FormEvent, useState } from "react";
import { oneLine } from "../data/hostile.ts";
import { useLoaded } from "../data/loaded.ts";
import { server } from "../server.ts";
import { Acting, useAction } from "./asks.tsx";
import { Ago, Problem } from "./say.tsx";

const STATES = {
	unknown: "tag",
	alive: "tag good",
	limited: "tag warn",
	dead: "tag bad",
	quarantined: "tag warn",
} as const;

/** Stored keys and logins: who holds them, how they are. No secret comes here. */
export function Credentials() {
	const { value, error, reload } = useLoaded("credentials", () => server.credentials(), 5000);
	const { act, isBusy, error: actError } = useAction();
	const remove = (label: string, holders: number) => {
		const warning = holders > 0 ? ` It is held by ${holders}, who lose it.` : "";
		if (!confirm(`Forget ${label}?${warning}`)) return;
		void act(async () => {
			await server.removeCredential(label, holders > 0);
			reload();
		});
	};
	const verify = (label: string) =>
		act(async () => {
			await server.verifyCredential(label);
			reload();
		});
	const items = value?.items ?? [];
	return (
		<section className="stack tight">
			<h2>Credentials</h2>
			<Problem error={error ?? actError} />
			{items.length > 0 && (
				<div className="scrolling" tabIndex={0} role="region" aria-label="Credentials">
					<table className="list">
						<thead>
							<tr>
								<th>label</th>
								<th>model</th>
								<th>address</th>
								<th>state</th>
								<th className="number">held</th>
								<th>used</th>
								<th>
									<span className="unseen">actions</span>
								</th>
							</tr>
						</thead>
						<tbody>
							{items.map((each) => (
								<tr key={each.id}>
									<td title={`fingerprint ${each.fingerprint}`}>{each.label}</td>
									<td className="one-line">{oneLine(each.endpoint?.model ?? each.kind)}</td>
									<td className="one-line soft">{oneLine(each.endpoint?.baseUrl ?? "–")}</td>
									<td>
										<span className={STATES[each.state]} title={each.reason ?? undefined}>
											{each.state}
										</span>
										{each.reason !== null && <span className="soft"> {oneLine(each.reason, 80)}</span>}
									</td>
									<td className="number" title={each.holders.map(({ holder }) => holder).join("\n")}>
										{each.holders.length} of {each.capacity}
									</td>
									<td className="soft">
										{each.lastUsedAt === null ? "never" : <Ago at={each.lastUsedAt} />}
									</td>
									<td className="number">
										<Acting>
											<button
												type="button"
												className="plain"
												disabled={isBusy}
												aria-label={`verify ${each.label}`}
												title="ask the provider one small question with it"
												onClick={() => verify(each.label)}
											>
												verify
											</button>
											<button
												type="button"
												className="plain"
												disabled={isBusy}
												aria-label={`forget ${each.label}`}
												onClick={() => remove(each.label, each.holders.length)}
											>
												forget
											</button>
										</Acting>
									</td>
								</tr>
							))}
						</tbody>
					</table>
				</div>
			)}
			<Acting>
				<NewKey onAdded={reload} />
			</Acting>
		</section>
	);
}

const NOTHING = { label: "", apiKey: "", baseUrl: "", model: "" };

function NewKey({ onAdded }: { onAdded: () => void }) {
	const [form, setForm] = useState(NOTHING);
	const { act, isBusy, error } = useAction();
	const add = async (event: FormEvent) => {
		event.preventDefault();
		if (!(await act(() => server.addApiKey(form)))) return;
		setForm(NOTHING);
		onAdded();
	};
	const field = (name: keyof typeof NOTHING, label: string, placeholder: string, type = "text") => (
		<label className="field">
			<span>{label}</span>
			<input
				{...{ type, placeholder }}
				autoComplete="off"
				required
				value={form[name]}
				onChange={(event) => setForm({ ...form, [name]: event.target.value })}
			/>
		</label>
	);
	return (
		<details className="fold card">
			<summary>Store an API key</summary>
			<form className="stack" onSubmit={add}>
				<div className="fields">
					{field("label", "Label", "team")}
					{field("baseUrl", "Base URL", "https://api.openai.com/v1")}
					{field("model", "Model name", "gpt-5")}
					{field("apiKey", "API key", "sealed at once, never shown again", "password")}
				</div>
				<Problem error={error} />
				<div>
					<button type="submit" disabled={isBusy}>
						Store
					</button>
				</div>
			</form>
		</details>
	);
}
