import { useState } from "react";
import { ApiError } from "../../../client/client.ts";
import { showBytes } from "../../data/figures.ts";
import { makeVisible } from "../../data/hostile.ts";
import { useLoaded } from "../../data/loaded.ts";
import { Output } from "../../parts/output.tsx";
import { Patch } from "../../parts/patch.tsx";
import { Problem } from "../../parts/say.tsx";
import { server } from "../../server.ts";

/** What the agent changed, and what it left. */
export function FilesTab({ id, isDone }: { id: string; isDone: boolean }) {
	if (!isDone) return <p className="soft">Files are collected when the rollout ends.</p>;
	return <Files id={id} />;
}

function Files({ id }: { id: string }) {
	const { value, error, reload } = useLoaded(`files-${id}`, async () => {
		const [list, diff] = await Promise.all([server.files(id), orNull(server.diff(id))]);
		return { ...list, diff };
	});
	const [path, setPath] = useState<string | null>(null);
	if (value === null) return <Problem error={error} onRetry={reload} />;
	return (
		<div className="stack">
			{value.diff === null ? <p className="soft">No diff was kept.</p> : <Patch text={value.diff} />}
			<h2>Files in the workdir</h2>
			{value.files.length === 0 && <p className="soft">The workdir was empty.</p>}
			<ul className="plain-list">
				{value.files.map((file) => (
					<li key={file.path}>
						<button
							type="button"
							className="plain"
							onClick={() => setPath(file.path)}
							aria-pressed={path === file.path}
						>
							<code>{makeVisible(file.path)}</code>
						</button>{" "}
						<span className="soft">{showBytes(file.sizeBytes)}</span>
					</li>
				))}
			</ul>
			{path !== null && <FileText id={id} path={path} />}
		</div>
	);
}

function FileText({ id, path }: { id: string; path: string }) {
	const { value, error } = useLoaded(`file-${id}-${path}`, () => server.file(id, path));
	if (value === null) return <Problem error={error} />;
	return <Output text={value === "" ? "(empty)" : value} label={makeVisible(path)} />;
}

async function orNull<T>(asked: Promise<T>): Promise<T | null> {
	try {
		return await asked;
	} catch (error) {
		if (error instanceof ApiError && error.status === 404) return null;
		throw error;
	}
}
