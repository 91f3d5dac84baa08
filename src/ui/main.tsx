import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app.tsx";
import { showTheme } from "./data/theme.ts";
import "./style/theme.css";
import "./style/layout.css";
import "./style/parts.css";
import "./style/axis.css";
import "./style/transcript.css";

showTheme();
createRoot(document.getElementById("root")!).render(
	<StrictMode>
		<App />
	</StrictMode>,
);
