/** The lines of a body, however the network cut it up; without their line ends. */
export async function* readLines(body: ReadableStream<Uint8Array> | null): AsyncGenerator<string> {
	if (!body) return;
	const decoder = new TextDecoder();
	const reader = body.getReader();
	let rest = "";
	try {
		for (;;) {
			const { done, value } = await reader.read();
			if (done) break;
			const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
			rest = lines.pop() ?? "";
			for (const line of lines) yield line.endsWith("\r") ? line.slice(0, -1) : line;
		}
		if (rest) yield rest;
	} finally {
		// The caller may have stopped half-way: the connection goes with it.
		await reader.cancel().catch(() => {});
	}
}

/** One JSON value for each line. */
export async function* readNdjson<T>(response: Response): AsyncGenerator<T> {
	for await (const line of readLines(response.body)) if (line) yield JSON.parse(line) as T;
}
