import type { LaunchForm } from "./form.ts";

/** The task's files, to be changed before it begins. */
export function Files({
	files,
	onChange,
}: {
	files: LaunchForm["files"];
	onChange: (files: LaunchForm["files"]) => void;
}) {
	const change = (index: number, part: Partial<LaunchForm["files"][number]>) =>
		onChange(files.map((file, at) => (at === index ? { ...file, ...part } : file)));
	return (
		<div className="stack">
			{files.map((file, index) => (
				// biome-ignore lint/suspicious/noArrayIndexKey: a file has no name of its own while it is typed
				<div key={index} className="card stack">
					<div className="row">
						<input
							aria-label="path"
							value={file.path}
							onChange={(event) => change(index, { path: event.target.value })}
						/>
						<button type="button" onClick={() => onChange(files.filter((_, at) => at !== index))}>
							Remove
						</button>
					</div>
					<textarea
						aria-label={`content of ${file.path}`}
						value={file.content}
						onChange={(event) => change(index, { content: event.target.value })}
					/>
				</div>
			))}
			<div>
				<button
					type="button"
					onClick={() => onChange([...files, { path: `file-${files.length + 1}.txt`, content: "" }])}
				>
					Add a file
				</button>
			</div>
		</div>
	);
}
