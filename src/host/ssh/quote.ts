/** One word for a POSIX shell, whatever is in it. */
export function quote(text: string): string {
	if (text.includes("\0")) throw new Error("no shell can be given a NUL byte");
	return `'${text.replaceAll("'", "'\\''")}'`;
}
