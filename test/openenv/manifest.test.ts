import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";

const root = join(import.meta.dirname, "..", "..");
const read = (path: string) => readFileSync(join(root, path), "utf8");

test("openenv.yaml names the environment, its image and its port", () => {
	expect(parse(read("openenv.yaml"))).toMatchObject({
		spec_version: 1,
		name: "paddock",
		type: "space",
		port: 8000,
	});
	expect(existsSync(join(root, parse(read("openenv.yaml")).app))).toBe(true);
});

test("the image copies only what exists, listens on 8000 and checks its health", () => {
	const dockerfile = read("docker/Dockerfile");
	const sources = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, names]) =>
		names!.split(" "),
	);
	expect(sources.length).toBeGreaterThan(3);
	for (const source of sources) expect(existsSync(join(root, source)), source).toBe(true);
	expect(dockerfile).toContain("EXPOSE 8000");
	expect(dockerfile).toMatch(/HEALTHCHECK[\s\S]*127\.0\.0\.1:8000\/health/);
	expect(dockerfile).toMatch(/CMD \["serve", "--host", "0\.0\.0\.0", "--port", "8000"\]/);
});
