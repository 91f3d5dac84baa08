import { ensureConsole, ensureDependencies } from "./setup.mjs";

/** `npm run console`: builds the web page if its sources have changed. */
ensureDependencies();
ensureConsole();
