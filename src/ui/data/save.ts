/** Saves what a stream brings as a file; throws when it breaks off, and then saves nothing. */
export async function saveAs(name: string, stream: ReadableStream<Uint8Array>): Promise<void> {
	const address = URL.createObjectURL(await new Response(stream).blob());
	const link = document.createElement("a");
	link.href = address;
	link.download = name;
	link.click();
	// The browser has taken hold of it by then.
	setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
