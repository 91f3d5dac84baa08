/** As much of Bun's foreign function interface as the programs in a box use. */
declare module "bun:ffi" {
	type Kind = "i32" | "u64" | "ptr";
	type Value = number | bigint | null;

	export function ptr(view: NodeJS.TypedArray): number;
	export function dlopen<Name extends string>(
		library: string,
		symbols: Record<Name, { args: Kind[]; returns: Kind }>,
	): { symbols: Record<Name, (...args: Value[]) => number> };
}
