import { lazy, type ReactNode, Suspense, useRef, useState } from "react";
import { chooseTheme, THEMES, themeNow } from "./data/theme.ts";
import { useKeys } from "./parts/keys.ts";
import { Link, navigate, usePlace } from "./router.tsx";
import { saveToken, useReadOnly, useTokenWanted } from "./server.ts";

const pages = {
	home: lazy(async () => ({ default: (await import("./pages/home.tsx")).HomePage })),
	rollouts: lazy(async () => ({
		default: (await import("./pages/rollouts/rollouts-page.tsx")).RolloutsPage,
	})),
	rollout: lazy(async () => ({ default: (await import("./pages/rollout/rollout-page.tsx")).RolloutPage })),
	groups: lazy(async () => ({ default: (await import("./pages/groups.tsx")).GroupsPage })),
	group: lazy(async () => ({ default: (await import("./pages/group.tsx")).GroupPage })),
	compare: lazy(async () => ({ default: (await import("./pages/compare.tsx")).ComparePage })),
	chats: lazy(async () => ({ default: (await import("./pages/chat/chats-page.tsx")).ChatsPage })),
	chat: lazy(async () => ({ default: (await import("./pages/chat/chat-page.tsx")).ChatPage })),
	launch: lazy(async () => ({ default: (await import("./pages/launch/launch-page.tsx")).LaunchPage })),
	machine: lazy(async () => ({ default: (await import("./pages/machine.tsx")).MachinePage })),
};

const RAIL: [path: string, label: string][] = [
	["/", "Home"],
	["/rollouts", "Rollouts"],
	["/groups", "Groups"],
	["/compare", "Compare"],
	["/chat", "Chat"],
	["/launch", "Launch"],
	["/machine", "Machine"],
];

export function App() {
	const isTokenWanted = useTokenWanted();
	const help = useRef<HTMLDialogElement>(null);
	const keys = {
		"?": () => help.current?.showModal(),
		Escape: () => history.back(),
		"g h": () => navigate("/"),
		"g r": () => navigate("/rollouts"),
		"g g": () => navigate("/groups"),
		"g c": () => navigate("/compare"),
		"g t": () => navigate("/chat"),
		"g l": () => navigate("/launch"),
		"g m": () => navigate("/machine"),
	};
	useKeys(keys, { isShell: true });
	return (
		<div className="shell">
			<Rail onHelp={() => help.current?.showModal()} />
			<main>
				{isTokenWanted ? (
					<TokenForm />
				) : (
					<Suspense fallback={<p className="soft">Loading …</p>}>
						<Page />
					</Suspense>
				)}
			</main>
			<dialog ref={help} aria-label="Keys">
				<KeyList />
				<form method="dialog">
					<button type="submit">Close</button>
				</form>
			</dialog>
		</div>
	);
}

function Page(): ReactNode {
	const { path } = usePlace();
	const [first, second] = path;
	if (first === undefined) return <pages.home />;
	if (first === "rollouts")
		return second === undefined ? <pages.rollouts /> : <pages.rollout key={second} id={second} />;
	if (first === "groups")
		return second === undefined ? <pages.groups /> : <pages.group key={second} id={second} />;
	if (first === "compare") return <pages.compare />;
	if (first === "chat")
		return second === undefined ? <pages.chats /> : <pages.chat key={second} id={second} />;
	if (first === "launch") return <pages.launch />;
	if (first === "machine") return <pages.machine />;
	return (
		<p>
			There is no such page. <Link to="/">Home</Link>
		</p>
	);
}

function Rail({ onHelp }: { onHelp: () => void }) {
	const isReadOnly = useReadOnly();
	const { path } = usePlace();
	const here = `/${path[0] ?? ""}`;
	return (
		<div className="rail">
			<Link to="/" className="brand">
				<img src="/web/icon.svg" alt="" />
				<span>Paddock</span>
			</Link>
			<nav aria-label="Pages">
				{RAIL.filter(([to]) => !isReadOnly || to !== "/launch").map(([to, label]) => (
					<Link key={to} to={to} current={here === to}>
						{label}
					</Link>
				))}
			</nav>
			<div className="bottom">
				{isReadOnly && <span className="tag">read-only</span>}
				<ThemeButton />
				<button type="button" className="plain" onClick={onHelp} aria-label="Keys" title="keys (?)">
					?
				</button>
			</div>
		</div>
	);
}

/** As the system has it, until somebody chooses. */
function ThemeButton() {
	const [theme, setTheme] = useState(themeNow);
	const choose = () => {
		const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]!;
		chooseTheme(next);
		setTheme(next);
	};
	return (
		<button
			type="button"
			className="plain"
			onClick={choose}
			title={`theme: ${theme}`}
			aria-label={`Theme: ${theme}`}
		>
			{theme === "dark" ? "☾" : theme === "light" ? "☀" : "◐"}
		</button>
	);
}

function TokenForm() {
	const [token, setToken] = useState("");
	return (
		<form
			className="card stack"
			style={{ maxWidth: 420, margin: "10vh auto" }}
			onSubmit={(event) => {
				event.preventDefault();
				saveToken(token);
			}}
		>
			<h1>This server asks for a token</h1>
			<label className="field">
				<span>Token</span>
				<input
					type="password"
					autoComplete="off"
					value={token}
					onChange={(event) => setToken(event.target.value)}
					required
				/>
				<small>What PADDOCK_TOKEN is set to where the server runs. It is forgotten with this tab.</small>
			</label>
			<button type="submit" className="main">
				Go on
			</button>
		</form>
	);
}

const KEYS: [string, string][] = [
	["/", "search"],
	["j k", "down, up"],
	["x", "choose a row"],
	["Enter", "open"],
	["Esc", "back; in a chat: interrupt the agent"],
	["[ ]", "previous, next rollout of the list"],
	["t", "tokens"],
	["d", "files and diff"],
	["v", "verify"],
	["a A r", "allow once, always, reject what an agent asks for"],
	["g h", "home"],
	["g r", "rollouts"],
	["g g", "groups"],
	["g c", "compare"],
	["g t", "chat"],
	["g l", "launch"],
	["g m", "machine"],
	["?", "these keys"],
];

function KeyList() {
	return (
		<dl className="facts">
			{KEYS.map(([keys, what]) => (
				<div key={keys} style={{ display: "contents" }}>
					<dt>
						{keys.split(" ").map((key, at) => (
							// biome-ignore lint/suspicious/noArrayIndexKey: one key may come twice
							<kbd key={at}>{key}</kbd>
						))}
					</dt>
					<dd>{what}</dd>
				</div>
			))}
		</dl>
	);
}
