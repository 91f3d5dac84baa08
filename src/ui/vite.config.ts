import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const folder = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** `npm run console` writes dist/web, which the server hands out at /web. `vite src/ui` serves it while one works on it. */
export default defineConfig({
	root: folder("."),
	base: "/web/",
	plugins: [react()],
	build: { outDir: folder("../../dist/web"), emptyOutDir: true, target: "es2023", assetsInlineLimit: 0 },
	server: { proxy: { "/api": process.env.PADDOCK_URL ?? "http://127.0.0.1:8000" } },
});
