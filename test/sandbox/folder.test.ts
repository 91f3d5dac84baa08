import { chown } from "node:fs/promises";
import { expect, test } from "vitest";
import { openLocalBackend } from "../../src/sandbox/local/local.ts";
import { openProcessBackend } from "../../src/sandbox/process/process.ts";
import { requirePart } from "../fixtures/parts.ts";
import { expectWalls, makeOwnFolder, openIn } from "./own-folder.ts";

test("a local box in a folder of this machine reads and writes it, and nothing else of the machine", async () => {
	await using place = await makeOwnFolder();
	await using backend = await openLocalBackend();
	await using box = await openIn(backend, place.folder);
	await expectWalls(box, place);
});

test("a folder that is root's own is refused: no box runs as root", async (context) => {
	requirePart(context, "root", process.getuid?.() === 0, "only root has folders of root's to offer");
	await using place = await makeOwnFolder();
	await chown(place.folder, 0, 0);
	await using backend = await openLocalBackend();
	await expect(openIn(backend, place.folder)).rejects.toMatchObject({ code: "folder_refused" });
});

test("a backend that shares no folders says so", async () => {
	await using place = await makeOwnFolder();
	await using backend = await openProcessBackend({ warn: () => {} });
	await expect(openIn(backend, place.folder)).rejects.toMatchObject({ code: "folder_unsupported" });
});
