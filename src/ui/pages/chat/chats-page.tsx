import { useState } from "react";
import { modelOf } from "../../../model/endpoint.ts";
import { heldWith, KEPT } from "../../data/chat.ts";
import { showCount, showTime } from "../../data/figures.ts";
import { oneLine } from "../../data/hostile.ts";
import { useLoaded } from "../../data/loaded.ts";
import { Acting, useAction } from "../../parts/asks.tsx";
import { Ago, Empty, Problem } from "../../parts/say.tsx";
import { Link, navigate } from "../../router.tsx";
import { server } from "../../server.ts";

/** Live agents: those that are open, those that were, and a new one. */
export function ChatsPage() {
	const { value, error, reload } = useLoaded("chats", () => server.conversations({ limit: 100 }), 3000);
	const chats = value?.items ?? [];
	return (
		<div className="stack">
			<header className="page-head">
				<h1>Chat</h1>
			</header>
			<Acting>
				<NewChat />
			</Acting>
			<Problem error={error} onRetry={reload} />
			{value !== null && chats.length === 0 && (
				<Empty>No conversation yet. Say something above, and an agent opens in a box of its own.</Empty>
			)}
			{chats.length > 0 && (
				<div className="scrolling" tabIndex={0} role="region" aria-label="Conversations">
					<table className="list">
						<thead>
							<tr>
								<th>conversation</th>
								<th>model</th>
								<th>state</th>
								<th className="number">calls</th>
								<th className="number">tokens in + out</th>
								<th>begun</th>
							</tr>
						</thead>
						<tbody>
							{chats.map((chat) => (
								<tr key={chat.id}>
									<td className="one-line">
										<Link to={`/chat/${chat.id}`} title={chat.id}>
											{oneLine(chat.labels.title ?? `chat of ${showTime(chat.createdAt).slice(0, 16)}`, 80)}
										</Link>
									</td>
									<td className="one-line soft">
										{oneLine(
											chat.keptAgent === null ? modelOf(chat.endpoint) : `${KEPT}${chat.keptAgent}`,
											60,
										)}
									</td>
									<td>
										<span className={chat.status === "open" ? "good" : "soft"}>
											{chat.status === "open" ? "●" : "○"}
										</span>{" "}
										{chat.status}
										{chat.closed !== null && chat.closed !== "asked" && (
											<span className="soft"> · {chat.closed}</span>
										)}
									</td>
									<td className="number">{chat.calls}</td>
									<td className="number">
										{showCount(chat.promptTokens)} + {showCount(chat.completionTokens)}
									</td>
									<td className="soft">
										<Ago at={chat.createdAt} />
									</td>
								</tr>
							))}
						</tbody>
					</table>
				</div>
			)}
		</div>
	);
}

const ADDRESS = "an address …";

function NewChat() {
	const known = useLoaded("chat-endpoints", async () => {
		const [endpoints, credentials, agents] = await Promise.all([
			server.endpoints(),
			server.credentials(),
			server.agents(),
		]);
		return [
			...endpoints.items.filter((each) => each.configured).map((each) => each.name),
			...credentials.items.map((each) => `cred:${each.label}`),
			...agents.items.map((each) => `${KEPT}${each.name}`),
		];
	});
	const [form, setForm] = useState({
		name: "",
		baseUrl: "",
		model: "",
		apiKey: "",
		text: "",
		permission: "ask",
	});
	const { error, isBusy, act } = useAction();
	const names = [...(known.value ?? []), ADDRESS];
	const name = form.name === "" ? names[0]! : form.name;
	const isAddress = name === ADDRESS;
	const isKept = name.startsWith(KEPT);
	const set = (change: Partial<typeof form>) => setForm({ ...form, ...change });
	const begin = () =>
		act(async () => {
			const { id } = await server.converse({
				...heldWith(isAddress ? null : name, form),
				text: form.text,
				by: "console",
				labels: { title: oneLine(form.text, 100) },
				agent: { permission: form.permission as "ask" | "allow" },
			});
			navigate(`/chat/${id}`);
		});
	return (
		<form
			className="card stack"
			onSubmit={(event) => {
				event.preventDefault();
				void begin();
			}}
		>
			<label className="field">
				<span>Say something to a new agent</span>
				<textarea
					rows={3}
					value={form.text}
					onChange={(event) => set({ text: event.target.value })}
					placeholder="What does this project do?"
				/>
			</label>
			<div className="fields">
				<label className="field">
					<span>Endpoint</span>
					<select value={name} onChange={(event) => set({ name: event.target.value })}>
						{names.map((each) => (
							<option key={each}>{each}</option>
						))}
					</select>
				</label>
				{isAddress && (
					<label className="field">
						<span>API key</span>
						<input
							type="password"
							autoComplete="off"
							value={form.apiKey}
							placeholder="if it wants one"
							onChange={(event) => set({ apiKey: event.target.value })}
						/>
					</label>
				)}
				{isAddress && (
					<label className="field">
						<span>Base URL</span>
						<input
							value={form.baseUrl}
							placeholder="http://127.0.0.1:8001/v1"
							onChange={(event) => set({ baseUrl: event.target.value })}
						/>
					</label>
				)}
				{!isKept && (
					<label className="field">
						<span>Model name</span>
						<input value={form.model} onChange={(event) => set({ model: event.target.value })} />
					</label>
				)}
				<label className="field">
					<span>Permission</span>
					<select value={form.permission} onChange={(event) => set({ permission: event.target.value })}>
						<option value="ask">ask me</option>
						<option value="allow">
							{isKept ? "allow what it is set up to do" : "allow everything in its box"}
						</option>
					</select>
				</label>
			</div>
			<Problem error={error} />
			<div>
				<button
					type="submit"
					className="main"
					disabled={
						isBusy || form.text.trim() === "" || (isAddress && (form.baseUrl === "" || form.model === ""))
					}
				>
					Begin
				</button>
			</div>
		</form>
	);
}
