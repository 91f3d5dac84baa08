import { type RefObject, useLayoutEffect, useState } from "react";

const LEAST_CHARACTERS = 24;

/** How many characters a line has room for. */
export function useCharacters(place: RefObject<HTMLDivElement | null>): number | undefined {
	const [characters, setCharacters] = useState<number>();
	useLayoutEffect(() => {
		const element = place.current;
		if (element === null) return;
		const measure = () => {
			const probe = document.createElement("span");
			probe.className = "tokens unseen";
			probe.style.whiteSpace = "pre";
			probe.textContent = "0".repeat(100);
			element.append(probe);
			const widthPx = probe.getBoundingClientRect().width / 100;
			probe.remove();
			setCharacters(Math.max(LEAST_CHARACTERS, Math.floor((element.clientWidth - 18) / widthPx)));
		};
		const observer = new ResizeObserver(measure);
		observer.observe(element);
		measure();
		return () => observer.disconnect();
	}, [place]);
	return characters;
}
