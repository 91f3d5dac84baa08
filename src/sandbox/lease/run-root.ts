import { join } from "node:path";

/** Short and neutral: its name shows inside a box, and a socket path below it must stay under 108 bytes. */
export function defaultRunRoot(): string {
	if (process.getuid?.() === 0) return "/run/paddock";
	return join(process.env.XDG_RUNTIME_DIR ?? "/tmp", `paddock-${process.getuid?.() ?? 0}`);
}
