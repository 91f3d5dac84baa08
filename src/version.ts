import { readFileSync } from "node:fs";
import { z } from "zod";

const manifest: unknown = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));

/** The one version: of the package, of the contract it serves, of every door. */
export const VERSION = z.object({ version: z.string() }).parse(manifest).version;
