import { existsSync } from "node:fs";
import { resolve } from "node:path";
import type { TestContext } from "vitest";
import { requirePart } from "../fixtures/parts.ts";

/** A Python that has the package `openenv`. */
export const python = resolve(process.env.PADDOCK_OPENENV_PYTHON ?? ".paddock/openenv/bin/python");

export function requireOpenEnv(context: TestContext): void {
	const how = "python3 -m venv .paddock/openenv && .paddock/openenv/bin/pip install openenv==0.4.2";
	requirePart(context, "the Python package openenv", existsSync(python), how);
}
