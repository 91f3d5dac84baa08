import { expect, test } from "vitest";
import { BoxSpec, type TaskFile } from "../../src/model/task.ts";
import { openLocalBackend } from "../../src/sandbox/local/local.ts";
import { stageFiles } from "../../src/verify/verifier.ts";
import { requirePart } from "../fixtures/parts.ts";

test("a task may bring thousands of files: they are staged over one connection", async (context) => {
	await using backend = await openLocalBackend();
	requirePart(context, "bubblewrap", (await backend.available()).ok, "apt-get install bubblewrap");
	await using box = await backend.open({ spec: BoxSpec.parse({}), onGateway: (c) => c.destroy() });
	const files = Array.from({ length: 2_000 }, (_, index): TaskFile => {
		const content = Buffer.from(`file ${index}\n`).toString("base64");
		return { path: `src/${index % 40}/${index}.txt`, content, encoding: "base64", executable: false };
	});
	files.push({ path: "/home/user/notes", content: "hi", encoding: "utf8", executable: true });
	await stageFiles(box, files, `${box.home}/work`);
	const { stdout } = await box.exec("find work -type f | wc -l; cat work/src/7/1807.txt; stat -c %a notes");
	expect(stdout).toBe("2000\nfile 1807\n755\n");
	const outside = { path: "/etc/passwd", content: "", encoding: "utf8" as const, executable: false };
	await expect(stageFiles(box, [outside], box.home)).rejects.toMatchObject({ code: "bad_path" });
});
