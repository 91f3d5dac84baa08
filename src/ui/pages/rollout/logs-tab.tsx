import { showBytes } from "../../data/figures.ts";
import { useLoaded } from "../../data/loaded.ts";
import { Output } from "../../parts/output.tsx";
import { Problem } from "../../parts/say.tsx";
import { server } from "../../server.ts";

const LOGS: [name: string, what: string][] = [
	["agent.log", "the agent"],
	["gateway.log", "model calls"],
	["install.log", "the box and its setup"],
];

/** What the agent, the gateway and the box wrote; kept when the rollout ends. */
export function LogsTab({ id, isDone }: { id: string; isDone: boolean }) {
	if (!isDone) return <p className="soft">Logs are kept when the rollout ends; its events come live.</p>;
	return <Logs id={id} />;
}

function Logs({ id }: { id: string }) {
	const { value, error, reload } = useLoaded(`logs-${id}`, async () => {
		const { blobs } = await server.files(id);
		const present = LOGS.filter(([name]) => blobs.includes(name));
		return await Promise.all(
			present.map(async ([name, what]) => {
				const bytes = await server.blob(id, name);
				return { name, what, size: bytes.length, text: new TextDecoder().decode(bytes) };
			}),
		);
	});
	if (value === null)
		return error === null ? <p className="soft">Reading …</p> : <Problem error={error} onRetry={reload} />;
	if (value.length === 0) return <p className="soft">No log was kept.</p>;
	return (
		<div className="stack">
			{value.map(({ name, what, size, text }) => (
				<section key={name} className="stack tight">
					<h2>
						{name}{" "}
						<span className="soft">
							· {what} · {showBytes(size)}
						</span>
					</h2>
					{text === "" ? <p className="soft">It is empty.</p> : <Output text={text} />}
				</section>
			))}
		</div>
	);
}
