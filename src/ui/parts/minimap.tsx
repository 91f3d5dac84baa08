import { useEffect, useRef } from "react";
import { MASKED, type TokenLine } from "../data/tokens.ts";

/** The whole branch at a glance: where it was surprised. */
export function Minimap({
	lines,
	onChoose,
}: {
	lines: readonly TokenLine[];
	onChoose: (line: number) => void;
}) {
	const canvas = useRef<HTMLCanvasElement>(null);
	useEffect(() => {
		const element = canvas.current;
		const context = element?.getContext("2d");
		if (!element || !context) return;
		const colours = [1, 2, 3, 4].map((level) => {
			element.style.color = `var(--level-${level})`;
			return getComputedStyle(element).color;
		});
		context.clearRect(0, 0, element.width, element.height);
		for (let y = 0; y < element.height; y += 1) {
			const from = Math.floor((y / element.height) * lines.length);
			const to = Math.max(from + 1, Math.floor(((y + 1) / element.height) * lines.length));
			let level = 0;
			for (const line of lines.slice(from, to))
				for (const run of line.runs) if (run.level !== MASKED) level = Math.max(level, run.level);
			if (level === 0) continue;
			context.fillStyle = colours[level - 1]!;
			context.fillRect(0, y, element.width, 1);
		}
	}, [lines]);
	return (
		<canvas
			ref={canvas}
			className="minimap"
			width={16}
			height={600}
			aria-hidden
			onClick={(event) => {
				const box = event.currentTarget.getBoundingClientRect();
				onChoose(Math.floor(((event.clientY - box.top) / box.height) * lines.length));
			}}
		/>
	);
}
