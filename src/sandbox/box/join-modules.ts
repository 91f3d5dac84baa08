import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";

const IMPORT = /^import (?:type )?\{([^}]*)\} from "([^"]+)";$/gm;
const EXPORT = /^export (?:async )?(?:function\*?|const|class) (\w+)/gm;

/**
 * A program of several modules as one file, since one file is easily brought anywhere. Types stay in: its runtime
 * strips them. Each module becomes a function that returns what it exports, in the order they need each other, so a
 * name means the same as before. Known forms: `import { … }`, and `export` before a declaration.
 */
export function joinModules(entry: string): string {
	const outside = new Map<string, string>();
	const inside = new Map<string, string>();
	const parts: string[] = [];

	const nameOf = (from: string, target: string): string => {
		if (target.startsWith(".")) return add(resolve(dirname(from), target));
		if (!outside.has(target)) outside.set(target, `outside${outside.size}`);
		return outside.get(target)!;
	};
	const add = (path: string): string => {
		const known = inside.get(path);
		if (known !== undefined) return known;
		const source = readFileSync(path, "utf8");
		const body = source.replace(IMPORT, (statement: string, names: string, target: string) => {
			const values = statement.startsWith("import type") ? [] : valuesOf(names);
			return values.length === 0 ? "" : `const { ${values.join(", ")} } = ${nameOf(path, target)};`;
		});
		const exported = [...source.matchAll(EXPORT)].map(([, name]) => name);
		const name = `module${inside.size}`;
		inside.set(path, name);
		const text = body.replace(/^export (?=[a-z])/gm, "");
		parts.push(`const ${name} = (() => {\n${text}\nreturn { ${exported.join(", ")} };\n})();`);
		return name;
	};

	add(entry);
	const imports = [...outside].map(([target, name]) => `import * as ${name} from "${target}";`);
	return `${[...imports, ...parts].join("\n")}\n`;
}

/** `a, type B, c as d` is `a, c: d`. */
function valuesOf(names: string): string[] {
	return names
		.split(",")
		.map((name) => name.trim())
		.filter((name) => name !== "" && !name.startsWith("type "))
		.map((name) => name.replace(" as ", ": "));
}
